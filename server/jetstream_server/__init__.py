"""A JetStream server in Python that speaks the NATS wire protocol.

It is run, by `jetstream-server` or `python -m jetstream_server`, and not imported: nothing but what
`__all__` names stays as it is from one version to the next.
"""

__all__ = ["API_LEVEL", "NATS_VERSION", "__version__"]

__version__ = "0.1.0"

# The release line of the genuine server whose behaviour is offered, and its JetStream API level.
# Client libraries gate features on both.
NATS_VERSION = "2.14.5"
API_LEVEL = 4
