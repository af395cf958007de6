"""Windowed stream joins by other engines, each in its best form, to measure ours against.

``python -m bench.peers`` prints what each of them does per second of processor time. A participant
of our own needs the two methods of :class:`bench.peers.participant.Participant`.
"""
