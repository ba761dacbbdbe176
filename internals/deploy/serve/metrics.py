"""What Prometheus reads at ``/metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internals.deploy.serve.server import Server

LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one server.

    Raises
    ------
    ImportError
        prometheus_client is not installed.
    """

    def __init__(self, server: Server) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise ImportError("The server counts with prometheus_client: pip install prometheus-client") from None
        self._prometheus: Any = prometheus
        self._kept: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._server = server
        self.registry = registry = prometheus.CollectorRegistry()
        of = ("model", "version")
        self._latency = prometheus.Histogram(
            "serve_request_seconds", "From a request's header to its answer.", of, buckets=LATENCY, registry=registry
        )
        self._answers = prometheus.Counter(
            "serve_requests", "Answers, by status of HTTP.", (*of, "code"), registry=registry
        )
        self._rows = prometheus.Histogram("serve_batch_rows", "Rows of batches.", of, buckets=ROWS, registry=registry)
        self._batch = prometheus.Histogram(
            "serve_batch_seconds", "A batch in a worker.", of, buckets=LATENCY, registry=registry
        )
        self._queue = prometheus.Gauge("serve_queue_rows", "Rows that wait.", of, registry=registry)
        self._restarts = prometheus.Gauge("serve_worker_restarts", "Processes that died.", of, registry=registry)
        self._flight = prometheus.Gauge("serve_in_flight", "Requests that are being answered.", registry=registry)

    def answered(self, model: str, version: str, code: int, seconds: float) -> None:
        """Count an answer."""
        self._labelled(self._answers, model, version, str(code)).inc()
        if code == 200:
            self._labelled(self._latency, model, version).observe(seconds)

    def batch(self, name: str, rows: int, seconds: float) -> None:
        """Count a batch of ``NAME/VERSION``."""
        of = name.rsplit("/", 1)
        self._labelled(self._rows, *of).observe(rows)
        self._labelled(self._batch, *of).observe(seconds)

    def _labelled(self, metric: Any, *of: str) -> Any:
        """What `labels` gives, kept: it takes longer than counting does."""
        key = (metric, of)
        if key not in self._kept:
            self._kept[key] = metric.labels(*of)
        return self._kept[key]

    def text(self) -> bytes:
        """In Prometheus's text format."""
        self._queue.clear()
        self._restarts.clear()
        for model in self._server.models.values():
            for version in model.versions.values():
                if version.runner is not None:
                    of = (model.name, str(version.number))
                    self._queue.labels(*of).set(version.runner.batcher.rows)
                    self._restarts.labels(*of).set(version.runner.pool.restarts)
        self._flight.set(self._server.in_flight)
        found: bytes = self._prometheus.generate_latest(self.registry)
        return found
