# The demo with Spark and Java; the server is another container (compose.yaml).
#
# Two stages, as in Dockerfile. The sources stay in the first one: Spark's Python processes would
# import them from the folder that they start in, and nothing in them is compiled.

FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN JETSTREAM_COMPILED=1 pip wheel --no-cache-dir --wheel-dir /wheels ./server '.[demo]'

FROM python:3.12-slim
# Spark looks for processes with `ps`.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'jetstream-spark[demo]' \
    && useradd --system --uid 1000 --create-home demo \
    && install --directory --owner demo /app
COPY examples /app/examples
USER demo
WORKDIR /app/examples
CMD ["python", "flights.py"]
