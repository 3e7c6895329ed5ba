"""vLLM's scheduling rules once more, token by token and block by block, written to be compared with `lib.replica`.

Nothing is shared with the library: a list of blocks in the order in which they will be taken, a
list of sequences, and a plan for each iteration, made when the one before the last has ended.
"""

from collections import deque
from dataclasses import dataclass


@dataclass
class _Sequence:
    prompt: int
    output: int
    known: int  # tokens of it that exist
    computed: int = 0  # of these, how many are in the cache, or will be when what is planned has run
    on_the_way: int = 0  # tokens planned that have not come back
    blocks: int = 0
    old: list | None = None  # what it had when it lost its memory: a stretch of the queue of free blocks
    decodes: bool = False
    first: float | None = None
    last: float | None = None


# the rules in one place, in their order
def served(requests, step_time, *, slots, budget, blocks, block_size, ahead):  # noqa: C901
    """Return when each request got its first and its last token.

    Parameters
    ----------
    requests : list of (arrival, prompt, output)
    step_time : callable
        Takes a list of (tokens planned, tokens cached before, whether it decodes).
    ahead : bool
        Whether a plan is made before the iteration that runs has ended.
    """
    everyone = [_Sequence(prompt, output, prompt) for _, prompt, output in requests]
    arrivals = [arrival for arrival, *_ in requests]
    free, queue = blocks, deque([[blocks]])  # stretches of free blocks, the first to be taken first
    waiting, running, flying = deque(), [], deque()
    now = ends = 0.0
    came = 0

    def take(count):
        nonlocal free
        free -= count
        while count:
            taken = min(count, queue[0][0])
            queue[0][0] -= taken
            count -= taken
            if not queue[0][0]:
                queue.popleft()

    def give(one):
        nonlocal free
        one.old = [one.blocks]
        queue.append(one.old)
        free, one.blocks = free + one.blocks, 0

    def plan():  # noqa: C901
        nonlocal free
        room, planned, short = budget, [], False
        for one in [*running]:
            if one not in running or room <= 0:
                break
            if one.on_the_way and one.computed + 2 - one.on_the_way >= one.prompt + one.output:
                continue  # its last token is on the way
            size = min(one.known + one.on_the_way - one.computed, room)
            if size <= 0:
                continue
            wanted = -(-(one.computed + size) // block_size) - one.blocks
            while wanted > free and one in running:
                loser = running.pop()
                give(loser)
                loser.computed, loser.decodes, short = 0, False, True
                waiting.appendleft(loser)
            if one not in running:
                break
            take(wanted)
            one.blocks += wanted
            planned.append((one, size, one.computed, one.decodes))
            room -= size
        while waiting and not short and room > 0 and len(running) < slots:
            one = waiting[0]
            found = min(one.old[0], (one.known - 1) // block_size) if one.old else 0
            whole = -(-one.known // block_size)
            if whole > free:
                break
            waiting.popleft()
            if found:
                one.old[0] -= found
                free -= found
            size = min(one.known - found * block_size, room)
            take(whole - found)
            one.blocks, one.computed, one.old = whole, found * block_size, None
            running.append(one)
            planned.append((one, size, one.computed, False))
            room -= size
        giving = []
        for one, size, *_ in planned:
            one.computed += size
            if one.computed >= one.known + one.on_the_way:
                one.on_the_way, one.decodes = one.on_the_way + 1, True
                giving.append(one)
        return planned, giving

    while any(one.last is None for one in everyone):
        while came < len(arrivals) and arrivals[came] <= now:
            waiting.append(everyone[came])
            came += 1
        if len(flying) < 1 + ahead and (waiting or running):
            while queue and not queue[0][0]:
                queue.popleft()
            planned, giving = plan()
            if planned:
                ends = max(now, ends) + step_time([shape for _, *shape in planned])
                flying.append((giving, ends))
                if len(flying) < 1 + ahead:
                    continue
        if not flying:
            now = max(now, arrivals[came])
            continue
        giving, now = flying.popleft()
        for one in giving:
            one.on_the_way -= 1
            one.known += 1
            one.first = now if one.first is None else one.first
        for one in [one for one in giving if one.known == one.prompt + one.output]:
            one.last = now
            if one in running:
                running.remove(one)
                give(one)
            else:
                waiting.remove(one)
    return [one.first for one in everyone], [one.last for one in everyone]
