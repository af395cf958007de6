"""The ``eddyline`` command. A module per subcommand; its docstring is its help."""
