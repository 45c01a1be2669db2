"""How properties are tried: machines differ in speed, so an example has no deadline."""

from hypothesis import settings

settings.register_profile("properties", deadline=None)
settings.load_profile("properties")
