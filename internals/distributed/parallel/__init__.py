"""Training one module on several ranks: whole on each, or cut into shards."""

from internals.distributed.parallel.buckets import Bucket, in_buckets
from internals.distributed.parallel.data_parallel import DistributedDataParallel
from internals.distributed.parallel.fully_sharded import FullyShardedDataParallel
from internals.distributed.parallel.sharded_optimizer import ShardedOptimizer

__all__ = ["Bucket", "DistributedDataParallel", "FullyShardedDataParallel", "ShardedOptimizer", "in_buckets"]
