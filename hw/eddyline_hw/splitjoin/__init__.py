"""SplitJoin: every core sees every tuple and keeps its share of both windows."""
