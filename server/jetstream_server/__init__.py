"""A JetStream server in Python that speaks the NATS wire protocol."""

__version__ = "0.1.0"

# The release line of the genuine server whose behaviour is offered, and its JetStream API level.
# Client libraries gate features on both.
NATS_VERSION = "2.14.5"
API_LEVEL = 4
