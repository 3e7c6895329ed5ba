"""vLLM's rules once more, token by token and block by block, by somebody who knows no closed form: slow and plain."""

from collections import deque

import numpy as np


class Request:
    def __init__(self, number, prompt, output):
        self.number, self.prompt, self.output = number, max(prompt, 1), output
        self.made = self.computed = self.kept_full = 0
        self.done = False  # whether its prompt, and all it had, is in the cache
        self.blocks, self.kept = [], []

    @property
    def tokens(self):
        return self.prompt + self.made


def finish_times(trace, step, *, seqs, budget, blocks, size):  # noqa: C901 (one loop, as plain as can be)
    """Return finish times and losses of memory; blocks are numbered, and each remembers whose part it last held."""
    arrivals = trace.arrival_time
    requests = [Request(i, int(p), int(o)) for i, (p, o) in enumerate(zip(*trace[1:], strict=True))]
    finish, losses = np.full(len(requests), np.inf), np.zeros(len(requests))
    queue_of_free, holds = deque(range(blocks)), {}
    coming, waiting, running, now = deque(requests), deque(), [], 0.0

    def take(request, count, first):
        for place in range(first, first + count):
            block = queue_of_free.popleft()
            holds[block] = (request.number, place)
            request.blocks.append(block)

    def give_back(request):
        queue_of_free.extend(reversed(request.blocks))
        request.kept, request.blocks = request.blocks, []

    while coming or waiting or running:
        while coming and arrivals[coming[0].number] <= now:
            request = coming.popleft()
            if request.prompt + request.output - 1 <= blocks * size:
                waiting.append(request)
        room, lost, plan, index = budget, False, [], 0
        while index < len(running):
            request = running[index]
            part = min(request.tokens - request.computed, room)
            wanted = -(-(request.computed + part) // size) - len(request.blocks)
            while wanted > len(queue_of_free):
                last = running.pop()
                last.kept_full = last.computed // size
                give_back(last)
                last.computed, last.done, lost = 0, False, True
                losses[last.number] += 1
                waiting.appendleft(last)
                if last is request:
                    break
            if index >= len(running):
                break
            take(request, max(wanted, 0), len(request.blocks))
            plan.append((request, part))
            room -= part
            index += 1
        while waiting and room > 0 and len(running) < seqs and not lost:
            request = waiting[0]
            found = []
            if request.kept:
                for place, block in enumerate(request.kept[: min(request.kept_full, (request.tokens - 1) // size)]):
                    if block not in queue_of_free or holds[block] != (request.number, place):
                        break
                    found.append(block)
            if -(-request.tokens // size) > len(queue_of_free):
                break
            waiting.popleft()
            for block in found:
                queue_of_free.remove(block)
            request.blocks, request.computed = found, len(found) * size
            take(request, -(-request.tokens // size) - len(found), len(found))
            part = min(request.tokens - request.computed, room)
            plan.append((request, part))
            room -= part
            running.append(request)
        if not plan:
            now = arrivals[coming[0].number] if coming else now
            continue
        decodes = [request for request, _ in plan if request.done]
        reads = [(r, part) for r, part in plan if r not in decodes]
        time = step.fixed + step.per_sequence * len(decodes)
        time += step.per_context_token * sum(r.tokens for r in decodes)
        time += step.per_prompt_token * sum(part for _, part in reads)
        time += step.per_prompt_pair * sum(part * r.computed + part * (part + 1) / 2 for r, part in reads)
        now += time
        for request, part in plan:
            request.computed += part
            if request.computed < request.tokens:
                continue
            request.made, request.done = request.made + 1, True
            if request.made == request.output:
                finish[request.number] = now
                running.remove(request)
                give_back(request)
    return finish, losses
