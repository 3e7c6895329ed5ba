"""Continuous batching with slots and reserved memory, as a SimPy process: an event for each iteration and arrival."""

from collections import deque
from heapq import heappop, heappush

import numpy as np
import simpy


def finish_times(trace, policy, step):
    """Return when each request ends, s; `policy` reads prompts elsewhere and reserves memory."""
    arrival, prompt, output = (column.tolist() for column in trace)
    prompt, output = [max(int(tokens), 1) for tokens in prompt], [int(tokens) for tokens in output]
    memory, block = policy.memory, policy.memory.block_size
    env = simpy.Environment()
    waiting, finish = deque(), [np.inf] * len(arrival)
    news = [env.event()]

    def source():
        for request, time in enumerate(arrival):
            yield env.timeout(time - env.now)
            waiting.append(request)
            _wake(news[0])

    def replica():
        inside, steps, context, left = [], 0, 0, len(arrival)
        free = memory.tokens // block
        while left:
            if not inside and not waiting:
                news[0] = env.event()
                yield news[0]
            while waiting and len(inside) < policy.slots:
                request = waiting[0]
                blocks = -(-(prompt[request] + output[request] - 1) // block)
                if blocks > free:
                    break
                free -= blocks
                waiting.popleft()
                heappush(inside, (steps + output[request], request))
                context += prompt[request]
            yield env.timeout(step.fixed + step.per_sequence * len(inside) + step.per_context_token * context)
            steps += 1
            context += len(inside)
            while inside and inside[0][0] == steps:
                _, request = heappop(inside)
                finish[request] = env.now
                context -= prompt[request] + output[request]
                free += -(-(prompt[request] + output[request] - 1) // block)
                left -= 1

    env.process(source())
    env.process(replica())
    env.run()
    return np.array(finish)


def finish_times_by_process(trace, policy, step):
    """Return the same, modelled as SimPy's guide would: each request is a process that waits for each of its tokens."""
    arrival, prompt, output = (column.tolist() for column in trace)
    prompt, output = [max(int(tokens), 1) for tokens in prompt], [int(tokens) for tokens in output]
    memory, block = policy.memory, policy.memory.block_size
    env = simpy.Environment()
    waiting, finish, inside = deque(), [np.inf] * len(arrival), set()
    state = {"free": memory.tokens // block, "context": 0, "left": len(arrival)}
    news, token = [env.event()], [env.event()]

    def request(number):
        admitted = env.event()
        waiting.append((number, admitted))
        _wake(news[0])
        yield admitted
        for _ in range(output[number]):
            yield token[0]
            state["context"] += 1
        finish[number] = env.now
        inside.remove(number)
        state["context"] -= prompt[number] + output[number]
        state["free"] += -(-(prompt[number] + output[number] - 1) // block)
        state["left"] -= 1

    def source():
        for number, time in enumerate(arrival):
            yield env.timeout(time - env.now)
            env.process(request(number))

    def replica():
        while state["left"]:
            if not inside and not waiting:
                news[0] = env.event()
                yield news[0]
            while waiting and len(inside) < policy.slots:
                number, admitted = waiting[0]
                blocks = -(-(prompt[number] + output[number] - 1) // block)
                if blocks > state["free"]:
                    break
                state["free"] -= blocks
                waiting.popleft()
                inside.add(number)
                state["context"] += prompt[number]
                admitted.succeed()
            time = step.fixed + step.per_sequence * len(inside) + step.per_context_token * state["context"]
            yield env.timeout(time)
            now, token[0] = token[0], env.event()
            now.succeed()
            yield env.timeout(0)  # each takes its token before the next iteration is planned

    env.process(source())
    env.process(replica())
    env.run()
    return np.array(finish)


def _wake(event):
    if not event.triggered:
        event.succeed()


def finish_times_alone(trace, step):
    """Return when each request ends, s, at a server that takes one at a time."""
    arrival, service = trace.arrival_time.tolist(), service_times(trace, step).tolist()
    env = simpy.Environment()
    server, finish = simpy.Resource(env, capacity=1), np.empty(len(arrival))

    def request(number):
        with server.request() as turn:
            yield turn
            yield env.timeout(service[number])
        finish[number] = env.now

    def source():
        for number, time in enumerate(arrival):
            yield env.timeout(time - env.now)
            env.process(request(number))

    env.process(source())
    env.run()
    return finish


def service_times(trace, step):
    """Return how long each request takes alone, s: its prompt, then a token an iteration."""
    prompt, more = trace.prompt_length, trace.output_length - 1
    held = more * (prompt + 1) + more * (more - 1) / 2
    read = step.fixed + step.per_prompt_token * prompt
    return read + more * (step.fixed + step.per_sequence) + step.per_context_token * held
