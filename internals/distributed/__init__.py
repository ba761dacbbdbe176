"""Training over several processes: messages, parameter server, collectives, data parallel, distributed graphs."""
