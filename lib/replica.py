"""One replica, exact at the iteration level: the loop that admits, reads prompts, decodes, preempts and lets go.

Between two events every iteration decodes the same sequences. If the time of an iteration is
affine in what they hold, many of them are one quadratic, so cost grows with events, not with
tokens. Any other step time is asked for each iteration.

The loop is plain Python over flat sequences, so that the same text runs as it is and, where
`numba` is installed, compiled: see `lib.simulation`, which checks arguments and calls it.
"""

from heapq import heappop, heappush
from math import ceil, floor, sqrt
from typing import NamedTuple

import numpy as np

# how prompts are read
ELSEWHERE, BESIDE, ALONE = 0, 1, 2
# how memory is given out
RESERVED, PAGED, ESTIMATED = 0, 1, 2
# who is sent back to the queue when memory runs out
LATEST, LEAST_DONE, LAST_IN_ORDER = 0, 1, 2
# why the head of the queue waits
NOTHING, SLOT, MEMORY, HELD_BACK, OTHERS = 0, 1, 2, 3, 4
UNLIMITED = 1 << 60


class StepLoad(NamedTuple):
    """What one iteration does: the argument of a step-time function.

    Attributes
    ----------
    decoding : int
        Sequences that get their next token.
    context : int
        Tokens that these attend to, together, the token that goes in included.
    prompt_tokens : int
        Tokens of prompts that are read.
    prompt_pairs : float
        Pairs of a prompt token and a token that it attends to.
    chunks : tuple of (int, int)
        For each prompt that is read: tokens of it in this iteration, and tokens of it already cached.
    """

    decoding: int
    context: int
    prompt_tokens: int
    prompt_pairs: float
    chunks: tuple


class Limits(NamedTuple):
    """The whole numbers of a policy, as the loop wants them."""

    slots: int
    budget: int
    blocks: int
    block: int
    spare: int
    reading: int
    split: int
    ordered: int
    allocation: int
    victim: int
    to_the_back: int
    reuse: int
    alternate: int
    patience: int
    ahead: int
    users: int
    record: int


class Rates(NamedTuple):
    """The fractions of a policy and of an affine step."""

    fixed: float
    per_sequence: float
    per_context: float
    per_prompt: float
    per_pair: float
    least_share: float
    estimate: float
    least_estimate: float
    decay: float


class Columns(NamedTuple):
    """What is known of each request, and what becomes of it: sequences that are read and written by position."""

    arrival: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    limit: np.ndarray
    cached: np.ndarray
    rank: np.ndarray
    in_order: np.ndarray
    think: np.ndarray
    admitted: np.ndarray
    first: np.ndarray
    finish: np.ndarray
    preempted: np.ndarray
    residual: np.ndarray
    slot: np.ndarray
    memory: np.ndarray
    held: np.ndarray
    own: np.ndarray
    others: np.ndarray
    made: np.ndarray
    done: np.ndarray
    ends: np.ndarray
    seat: np.ndarray
    mark: np.ndarray


def iterations_until(time, first, growth):
    """Return after how many iterations `time` has passed, if the first takes `first` and each `growth` more."""
    if growth > 0:
        base = first - 0.5 * growth
        count = ceil(2 * time / (base + sqrt(base * base + 2 * growth * time)))
    else:
        count = ceil(time / first)
    count = max(count, 1)
    while count * first + growth * (count * (count - 1) * 0.5) < time:
        count += 1
    while count > 1 and (count - 1) * first + growth * ((count - 1) * (count - 2) * 0.5) >= time:
        count -= 1
    return count


def blocks_wanted(crossing, step, count):
    """Return how many blocks the next `count` steps take, if `crossing` sequences begin one at each phase."""
    block = len(crossing)
    cycles = count // block
    wanted = 0
    if cycles:
        for phase in range(block):
            wanted += crossing[phase]
        wanted *= cycles
    for ahead in range(count - cycles * block):
        wanted += crossing[(step + ahead) % block]
    return wanted


def steps_that_fit(crossing, step, free, most):
    """Return for how many of the next `most` steps the free blocks last."""
    block = len(crossing)
    cycle = 0
    for phase in range(block):
        cycle += crossing[phase]
    if cycle == 0:
        return most
    count = (free // cycle) * block
    if count >= most:
        return most
    free -= (free // cycle) * cycle
    while count < most:
        free -= crossing[(step + count) % block]
        if free < 0:
            return count
        count += 1
    return most


def victim_of(rule, stack, seat, columns, steps):
    """Return who gives up its memory."""
    output, prompt, rank, ends, made = columns.output, columns.prompt, columns.rank, columns.ends, columns.made
    if rule == LATEST:
        while seat[stack[len(stack) - 1]] != len(stack) - 1:
            stack.pop()
        return stack[len(stack) - 1]
    chosen, least, longest = -1, 0, 0
    for place in range(len(stack)):
        i = stack[place]
        if seat[i] != place:
            continue
        if rule == LAST_IN_ORDER:
            one, two = -rank[i], 0
        else:
            one, two = (output[i] - (ends[i] - steps) if ends[i] >= 0 else made[i]), -prompt[i]
        if chosen < 0 or one < least or (one == least and two < longest):
            chosen, least, longest = i, one, two
    return chosen


# One function and many branches: a call for each event would cost more than the event.
def advance(columns, limits, rates, step_time, report):  # noqa: C901
    """Run until every request has finished or been refused.

    Returns
    -------
    tuple
        Iterations, seconds in which the replica worked, and the record, a row for each stretch of equal iterations:
        when it begins, how long it and its first iteration last, its iterations, who decodes, who is inside and who
        waits, tokens in the cache and blocks at its end; then who lost memory when, and when each was read again.
    """
    arrival, prompt, output, limit, cached = (
        columns.arrival,
        columns.prompt,
        columns.output,
        columns.limit,
        columns.cached,
    )
    rank, in_order, think = columns.rank, columns.in_order, columns.think
    admitted, first, finish, preempted = columns.admitted, columns.first, columns.finish, columns.preempted
    residual, slot, memory, held = columns.residual, columns.slot, columns.memory, columns.held
    own, others, made, done = columns.own, columns.others, columns.made, columns.done
    ends, seat, mark = columns.ends, columns.seat, columns.mark
    slots, budget, blocks, block = limits.slots, limits.budget, limits.blocks, limits.block
    reading_mode, split, ordered = limits.reading, limits.split, limits.ordered
    allocation, users, record = limits.allocation, limits.users, limits.record
    fixed, per_sequence, per_context = rates.fixed, rates.per_sequence, rates.per_context
    per_prompt, per_pair = rates.per_prompt, rates.per_pair
    alone, elsewhere, paged = reading_mode == ALONE, reading_mode == ELSEWHERE, allocation != RESERVED
    reuse, alternate, patience, ahead = limits.reuse, limits.alternate, limits.patience, limits.ahead

    count = len(arrival)
    left = count
    bits = 1  # a sequence in the heap: the step at which it ends, and its position in the last bits
    while count >> bits:
        bits += 1
    mask = (1 << bits) - 1
    never = np.inf
    heap = [0]
    ready = [0]  # ranks of those who wait, if the order is not that of arrival or they were sent back
    queue = [0]  # those who wait in order of arrival
    coming = [(0.0, 0)]  # closed loop: when the next requests come
    stack = [0]  # those who run, in order of admission; stale where seat says otherwise
    reading, chunk, fresh, gone = [0], [0], [0], [0]
    leaving = [0]  # those who have finished, whom a plan made an iteration ahead still counts
    heap.pop(), ready.pop(), queue.pop(), coming.pop(), stack.pop()
    reading.pop(), chunk.pop(), fresh.pop(), gone.pop(), leaving.pop()
    crossing = [0] * (block if paged else 1)
    times, lasts, paces, counts, decodes = [0.0], [0.0], [0.0], [0], [0]
    runs, waits, tokens, taken = [0], [0], [0], [0]
    losers, lost_at, back, back_at = [0], [0.0], [0], [0.0]
    times.pop(), lasts.pop(), paces.pop(), counts.pop(), decodes.pop()
    runs.pop(), waits.pop(), tokens.pop(), taken.pop()
    losers.pop(), lost_at.pop(), back.pop(), back_at.pop()
    head = waiting = running = decoding = context = steps = total = iterations = 0
    partial = -1
    free = blocks
    pushed, popped = blocks, 0  # blocks that have entered and left the queue of free ones
    owed = produced = 0
    estimate = rates.estimate
    since, just_read = 1, False
    now = busy = begun = seen = 0.0
    stretch, pace, growth = 1, 0.0, 0.0
    by_slot = by_memory = by_holding = by_others = 0.0
    reason = NOTHING
    came = sent = 0
    if users:
        while sent < min(users, count):
            heappush(coming, (arrival[sent], sent))
            sent += 1
        due = coming[0][0]
    else:
        due = arrival[0]

    while left:
        # Who has come since the last boundary joins the queue, or is refused at once.
        while due <= seen:
            if users:
                i = heappop(coming)[1]
            else:
                i = came
                came += 1
            whole = prompt[i] + (limit[i] if allocation == RESERVED else output[i]) - 1
            if whole > blocks * block:
                left -= 1
                if users and sent < count:
                    arrival[sent] = arrival[i] + think[sent]
                    heappush(coming, (arrival[sent], sent))
                    sent += 1
            else:
                ago = 0.0
                if stretch > 1:
                    # a boundary inside the last stretch was the first to see it
                    passed = ahead
                    if arrival[i] > begun:
                        passed += iterations_until(arrival[i] - begun, pace, growth)
                    if passed < stretch:
                        ago = now - (begun + (passed * pace + growth * (passed * (passed - 1) * 0.5)))
                residual[i] = now - ago - arrival[i]
                slot[i], memory[i], held[i], others[i] = -by_slot, -by_memory, -by_holding, -by_others
                if ago > 0:
                    if reason == SLOT:
                        slot[i] += ago
                    elif reason == MEMORY:
                        memory[i] += ago
                    elif reason == HELD_BACK:
                        held[i] += ago
                    else:
                        others[i] += ago
                waiting += 1
                if ordered:
                    heappush(ready, rank[i])
                else:
                    queue.append(i)
            if users and len(coming):
                due = coming[0][0]
            elif users or came == count:
                due = never
            else:
                due = arrival[came]
        if not left:
            break

        # Memory for the next token of each sequence, and new members: in this order if both share an iteration.
        total, pairs, short, promised = 0, 0.0, False, 0
        if len(reading):
            reading.clear()
            chunk.clear()
        for phase in range(2):
            if alone != (phase == 0):
                if not paged or decoding == 0 or len(reading):
                    continue
                now_wanted = crossing[steps % block]
                while now_wanted > free:
                    short = True
                    i = victim_of(limits.victim, stack, seat, columns, steps)
                    if made[i] == output[i]:
                        # has finished, which the plan does not know yet
                        kept = (prompt[i] + output[i] - 1 + block - 1) // block
                        free += kept
                        pushed += kept
                        running -= 1
                        seat[i] = -1
                        leaving.remove(i)
                        continue
                    preempted[i] += 1
                    if record:
                        losers.append(i)
                        lost_at.append(now)
                    if i == partial:
                        partial = -1
                        kept, full = prompt[i] + made[i], done[i] // block
                    else:
                        made[i] = output[i] - (ends[i] - steps)
                        kept = prompt[i] + made[i] - 1
                        full = kept // block
                        decoding -= 1
                        context -= kept + 1
                        owed -= limit[i] - made[i]
                        produced -= made[i]
                        place = (1 + ends[i] - prompt[i] - output[i]) % block
                        crossing[place] -= 1
                        if place == steps % block:
                            now_wanted -= 1
                        ends[i] = -1
                    kept = (kept + block - 1) // block
                    free += kept
                    pushed += kept
                    mark[i] = pushed - full  # the first of its blocks are the last in the queue
                    done[i] = full
                    seat[i] = -1
                    running -= 1
                    waiting += 1
                    if made[i] == 0:
                        slot[i] -= by_slot
                        memory[i] -= by_memory
                        held[i] -= by_holding
                        others[i] -= by_others
                    if ordered or not limits.to_the_back:
                        heappush(ready, rank[i])
                    else:
                        queue.append(i)
                if short:
                    reason = MEMORY
                    if allocation == ESTIMATED:
                        estimate = min(1.0, (produced + 20 * decoding) / (owed + produced + 1))
                continue

            reason = NOTHING
            room = budget - (0 if alone else decoding)
            wanted = crossing[steps % block] if paged and not alone else 0
            if partial >= 0:
                part = min(prompt[partial] + made[partial] - done[partial], room)
                reading.append(partial)
                chunk.append(part)
                total += part
                pairs += part * done[partial] + part * (part + 1) * 0.5
                room -= part
                if done[partial] + part < prompt[partial] + made[partial]:
                    room = 0
            if waiting and decoding and alone:
                if alternate and just_read:
                    reason = HELD_BACK
                    continue
                if rates.least_share > 0 and since < patience:
                    least = floor(decoding * rates.least_share)
                    boarding, space, stock = 0, room, free
                    while boarding < min(waiting, least) and running + boarding < slots:
                        i = queue[head + boarding]
                        part = prompt[i] - cached[i]
                        stock -= (prompt[i] + limit[i] - 1 + block - 1) // block
                        if (part > space and boarding) or stock < 0:
                            break
                        space -= part
                        boarding += 1
                    if boarding < least and (boarding or waiting < least):
                        reason = HELD_BACK
                        continue
            while waiting:
                if running >= slots:
                    reason = SLOT
                    break
                if short:
                    reason = MEMORY
                    break
                if room <= 0:
                    reason = OTHERS
                    break
                i = in_order[ready[0]] if len(ready) else queue[head]
                size = prompt[i] + made[i]
                start = cached[i]
                if reuse and preempted[i]:
                    # of its blocks, those that nobody has taken since; the last token is always computed
                    lost = min(max(popped + wanted - mark[i], 0), done[i])  # those who decode take theirs first
                    start = max(start, min((done[i] - lost) * block, size - 1))
                part = size - start
                if part > room and not elsewhere:
                    if split:
                        part = room
                    elif total:
                        reason = OTHERS
                        break
                if allocation == RESERVED:
                    kept = (prompt[i] + limit[i] - 1 + block - 1) // block
                    if kept > free:
                        reason = MEMORY
                        break
                else:
                    kept = (size + block - 1) // block
                    if kept > free - wanted - (limits.spare if running else 0):
                        reason = MEMORY
                        break
                    if allocation == ESTIMATED:
                        spare = free * block - estimate * owed - promised
                        if running and size - start + limit[i] - made[i] >= spare:
                            reason = MEMORY
                            break
                        if part == size - start:
                            promised += limit[i] - made[i]
                    if elsewhere:
                        kept = (size - 1 + block - 1) // block
                if len(ready):
                    heappop(ready)
                else:
                    head += 1
                waiting -= 1
                running += 1
                if reuse and start > cached[i]:
                    hits = start // block
                    for place in range(len(ready)):
                        later = in_order[ready[place]]
                        if mark[later] > mark[i]:
                            mark[later] -= hits
                    pushed -= hits
                    popped -= hits
                free -= kept
                popped += kept
                if admitted[i] == never:
                    admitted[i] = now
                if made[i] == 0:
                    slot[i] += by_slot
                    memory[i] += by_memory
                    held[i] += by_holding
                    others[i] += by_others
                if paged:
                    seat[i] = len(stack)
                    stack.append(i)
                if elsewhere:
                    ends[i] = steps + output[i] - made[i]
                    heappush(heap, ends[i] << bits | i)
                    decoding += 1
                    context += size
                    if paged:
                        owed += limit[i] - made[i]
                        produced += made[i]
                        place = (1 + ends[i] - prompt[i] - output[i]) % block
                        crossing[place] += 1
                        if place == steps % block:
                            wanted += 1
                    if made[i] == 0:
                        fresh.append(i)
                    if record and preempted[i]:
                        back.append(i)
                        back_at.append(now)
                else:
                    done[i] = start
                    reading.append(i)
                    chunk.append(part)
                    total += part
                    pairs += part * start + part * (part + 1) * 0.5
                    room -= part
                    if start + part < size:
                        partial = i
                        room = 0
            if head > 65536 and 2 * head > len(queue):
                queue = queue[head:]
                head = 0
            if len(stack) > 2 * running + 64:
                running_now = 0
                for place in range(len(stack)):
                    i = stack[place]
                    if seat[i] == place:
                        seat[i] = running_now
                        stack[running_now] = i
                        running_now += 1
                while len(stack) > running_now:
                    stack.pop()

        beside = 0
        if len(reading):
            # One iteration that reads prompts, and decodes beside them unless they are alone.
            beside = 0 if alone else decoding
            took = fixed + per_prompt * total + per_pair * pairs
            if beside:
                took += per_sequence * beside + per_context * context
            if step_time is not None:
                chunks = tuple(zip(chunk, [done[i] for i in reading]))  # noqa: B905
                took = step_time(StepLoad(beside, context if beside else 0, total, pairs, chunks))
            stretch, just_read, since = 1, True, 1
            iterations += 1
            if beside:
                steps += 1
                context += beside
                if paged:
                    wanted = crossing[(steps - 1) % block]
                    free -= wanted
                    popped += wanted
                    owed -= beside
                    produced += beside
            if record:
                cache = context - decoding
                for place in range(len(reading)):
                    cache += done[reading[place]] + chunk[place]
        elif decoding:
            # As many equal iterations as there are before something changes.
            while ends[heap[0] & mask] != heap[0] >> bits:
                heappop(heap)
            pace = fixed + per_sequence * decoding + per_context * context
            growth = per_context * decoding
            stretch = (heap[0] >> bits) - steps
            if step_time is not None:
                pace = step_time(StepLoad(decoding, context, 0, 0.0, ()))
                stretch, growth = 1, 0.0
            elif waiting == 0:
                if running >= slots:
                    reason = SLOT
                elif due < never:
                    stretch = min(stretch, iterations_until(due - now, pace, growth))
            elif reason == HELD_BACK:
                stretch = 1 if just_read and alternate else min(stretch, max(1, patience - since))
                if due < never:
                    stretch = min(stretch, iterations_until(due - now, pace, growth))
            elif reason == MEMORY:
                if allocation == ESTIMATED or short:
                    stretch = 1
                elif ordered and due < never:
                    stretch = min(stretch, iterations_until(due - now, pace, growth))
            elif reason in (NOTHING, OTHERS):
                stretch = 1
            if len(leaving):
                stretch = 1
            if paged:
                stretch = steps_that_fit(crossing, steps, free, stretch)
                wanted = blocks_wanted(crossing, steps, stretch)
                free -= wanted
                popped += wanted
                owed -= decoding * stretch
                produced += decoding * stretch
            took = stretch * pace + growth * (stretch * (stretch - 1) * 0.5)
            iterations += stretch
            since += stretch
            just_read = False
            estimate = max(rates.least_estimate, estimate - rates.decay * stretch)
            for place in range(len(fresh)):
                i = fresh[place]
                first[i] = now + pace
                own[i] += pace
            if len(fresh):
                fresh.clear()
            if record:
                cache = context + decoding * (stretch - 1)
            steps += stretch
            context += decoding * stretch
        elif seen < now or len(leaving):
            # There was nothing to plan ahead: the plan waits for what runs.
            seen = now
            for place in range(len(leaving)):
                i = leaving[place]
                seat[i] = -1
                kept = (prompt[i] + (limit[i] if allocation == RESERVED else output[i]) - 1 + block - 1) // block
                free += kept
                pushed += kept
            running -= len(leaving)
            leaving.clear()
            continue
        else:
            if waiting or due == never:
                raise RuntimeError("nothing runs, and nobody who waits fits")
            estimate = rates.estimate
            since, just_read, stretch = 1, False, 1
            now = seen = due
            continue

        if record:
            times.append(now)
            lasts.append(took)
            paces.append(took if len(reading) else pace)
            counts.append(stretch)
            decodes.append(beside if len(reading) else decoding)
            runs.append(running - len(leaving))
            waits.append(waiting)
            tokens.append(cache)
            held_over = 0
            for place in range(len(leaving)):
                i = leaving[place]
                held_over += (prompt[i] + (limit[i] if allocation == RESERVED else output[i]) - 1 + block - 1) // block
            taken.append(blocks - free - held_over)
        begun = now
        now += took
        seen = now
        if ahead:
            seen = begun
            if stretch > 1:
                seen += (stretch - 1) * pace + growth * ((stretch - 1) * (stretch - 2) * 0.5)
        busy += took
        if reason == SLOT:
            by_slot += took
        elif reason == MEMORY:
            by_memory += took
        elif reason == HELD_BACK:
            by_holding += took
        else:
            by_others += took

        # Those whose last token came.
        while len(heap) and heap[0] >> bits <= steps:
            i = heap[0] & mask
            if ends[i] == heap[0] >> bits:
                ends[i] = -1
                decoding -= 1
                context -= prompt[i] + output[i]
                if paged:
                    owed -= limit[i] - output[i]
                    produced -= output[i]
                    crossing[(1 + steps - prompt[i] - output[i]) % block] -= 1
                gone.append(i)
            heappop(heap)
        for place in range(len(reading)):
            i, part = reading[place], chunk[place]
            if made[i] == 0:
                mine = took * part / total
                own[i] += mine
                others[i] += took - mine
            done[i] += part
            if done[i] < prompt[i] + made[i]:
                continue
            if i == partial:
                partial = -1
            made[i] += 1
            if made[i] == 1:
                first[i] = now
            if record and preempted[i]:
                back.append(i)
                back_at.append(now)
            if made[i] == output[i]:
                gone.append(i)
                continue
            ends[i] = steps + output[i] - made[i]
            heappush(heap, ends[i] << bits | i)
            decoding += 1
            context += prompt[i] + made[i]
            if paged:
                owed += limit[i] - made[i]
                produced += made[i]
                crossing[(1 + ends[i] - prompt[i] - output[i]) % block] += 1
        for place in range(len(leaving)):
            i = leaving[place]
            seat[i] = -1
            kept = (prompt[i] + (limit[i] if allocation == RESERVED else output[i]) - 1 + block - 1) // block
            free += kept
            pushed += kept
        running -= len(leaving)
        leaving.clear()
        for place in range(len(gone)):
            i = gone[place]
            finish[i] = now
            made[i] = output[i]
            left -= 1
            kept = (prompt[i] + (limit[i] if allocation == RESERVED else output[i]) - 1 + block - 1) // block
            if ahead:
                leaving.append(i)
            else:
                running -= 1
                seat[i] = -1
                free += kept
                pushed += kept
            if users and sent < count:
                arrival[sent] = now + think[sent]
                heappush(coming, (arrival[sent], sent))
                sent += 1
                due = coming[0][0]
        if len(gone):
            gone.clear()
        if report is not None:
            report(count - left)
    return (
        iterations, busy, times, lasts, paces, counts, decodes, runs, waits, tokens, taken,
        losers, lost_at, back, back_at,
    )  # fmt: skip
