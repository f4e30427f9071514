"""Published agents, driven by this library's client, with a model that is played here."""
