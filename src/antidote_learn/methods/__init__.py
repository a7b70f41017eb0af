"""Training algorithms: each sequences pure parts of core and nn."""
