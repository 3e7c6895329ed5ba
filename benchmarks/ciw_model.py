"""A server that takes one request at a time, as a Ciw network. Ciw has no node whose members share iterations."""

import ciw
import numpy as np

from benchmarks.simpy_model import service_times


def finish_times_alone(trace, step):
    """Return when each request ends, s."""
    gaps = [*np.diff(trace.arrival_time, prepend=0.0).tolist(), np.inf]
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential(gaps)],
        service_distributions=[ciw.dists.Sequential(service_times(trace, step).tolist())],
        number_of_servers=[1],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(len(trace.arrival_time))
    records = simulation.get_all_records()
    finish = np.full(len(trace.arrival_time), np.inf)
    for record in records:
        finish[record.id_number - 1] = record.exit_date
    return finish
