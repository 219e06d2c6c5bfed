# The demo with Spark and Java; the server is another container (compose.yaml).
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
    default-jre-headless procps gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir ./server '.[demo]'
CMD ["python", "examples/flights.py"]
