// The rides of lib/boarding.py, computed in the page: who boards a bus with slots, and who leaves.
// A chart whose specification holds usermeta.ride draws what its controls ask for.
(() => {
  "use strict";

  // Whole tokens from normal scores: a lognormal law of that mean and variation.
  function lengths(scores, mean, variation, longest) {
    const spread = Math.sqrt(Math.log1p(variation * variation));
    return scores.map((score) => Math.min(longest, Math.max(1, Math.round(mean * Math.exp(spread * score - (spread * spread) / 2)))));
  }

  // As lib.boarding.ride on a timetable: a step takes fixed + marginal n, reading n prompts prompt n.
  function ride(arrivals, wanted, policy, slots, { fixed, marginal, prompt }) {
    const count = arrivals.length;
    const boarded = Array(count).fill(0), first = Array(count).fill(0), finish = Array(count).fill(0);
    let aboard = [], given = [], came = 0, now = 0;
    const letGo = () => {
      const done = aboard.map((one, slot) => given[slot] === wanted[one]);
      done.forEach((ended, slot) => { if (ended) finish[aboard[slot]] = now; });
      const whole = aboard.every((one, slot) => given[slot] >= wanted[one]);
      const stays = (_, slot) => (policy === "padded" ? !whole : !done[slot]);
      [aboard, given] = [aboard.filter(stays), given.filter(stays)];
    };
    while (came < count || aboard.length) {
      if (!aboard.length && arrivals[came] > now) now = arrivals[came];
      const room = policy === "continuous" || !aboard.length ? slots - aboard.length : 0;
      let last = came;
      while (last < Math.min(came + room, count) && arrivals[last] <= now) last += 1;
      if (last > came) {
        for (let one = came; one < last; one += 1) boarded[one] = now;
        now += prompt * (last - came);
        for (let one = came; one < last; one += 1) { first[one] = now; aboard.push(one); given.push(1); }
        came = last;
      } else {
        now += fixed + marginal * aboard.length;
        given = given.map((tokens) => tokens + 1);
      }
      letGo();
    }
    return { boarded, first, finish };
  }

  // As lib.boarding.seating: the lowest slot that is free, and until when it is held.
  function seating({ boarded, finish }, policy, slots) {
    const last = new Map();
    boarded.forEach((time, one) => last.set(time, Math.max(last.get(time) ?? 0, finish[one])));
    const freed = finish.map((time, one) => (policy === "continuous" ? time : last.get(boarded[one])));
    const until = Array(slots).fill(-Infinity);
    const slot = boarded.map((time, one) => {
      const free = until.findIndex((end) => end <= time);
      until[free] = freed[one];
      return free;
    });
    return { slot, freed };
  }

  // Rows of the chart, as lib.bus_charts.rows has them.
  function rows(settings, { slots, rate, variation }) {
    const arrivals = settings.unitArrivals.map((time) => time / rate);
    const wanted = lengths(settings.scores, settings.mean, variation, settings.longest);
    const bars = [], words = [];
    settings.policies.forEach(({ name, policy }, block) => {
      const made = ride(arrivals, wanted, policy, slots, settings.times);
      const { slot, freed } = seating(made, policy, slots);
      const bar = (one, from, to, kind) => {
        if (to > from) bars.push({ policy: name, from, to, low: block + 0.2 + (0.76 * slot[one]) / slots, high: block + 0.2 + (0.76 * (slot[one] + 0.85)) / slots, kind });
      };
      wanted.forEach((_, one) => bar(one, made.boarded[one], made.finish[one], settings.kinds[0]));
      wanted.forEach((_, one) => bar(one, made.finish[one], freed[one], settings.kinds[1]));
      const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
      const several = wanted.map((_, one) => one).filter((one) => wanted[one] > 1);
      words.push({
        policy: name, at: block,
        done: Math.max(...made.finish),
        first: mean(made.first.map((time, one) => time - arrivals[one])),
        token: mean(several.map((one) => (made.finish[one] - made.first[one]) / (wanted[one] - 1))),
      });
    });
    return { bars, words };
  }

  // Follow the controls of a chart.
  function drive(view, spec) {
    const settings = spec.usermeta.ride;
    const named = (field) => Object.entries(spec.datasets).find(([, held]) => field in held[0])[0];
    const [bars, words] = [named("low"), named("token")];
    const update = () => {
      const made = rows(settings, Object.fromEntries(["slots", "rate", "variation"].map((name) => [name, view.signal(name)])));
      return view.data(bars, made.bars).data(words, made.words).runAsync();
    };
    let waiting; // several controls may change in one go, and a view must come to rest before it runs again
    const soon = () => { clearTimeout(waiting); waiting = setTimeout(update); };
    for (const name of ["slots", "rate", "variation"]) view.addSignalListener(name, soon);
    return update();
  }

  window.boarding = { lengths, ride, seating, rows, drive };
})();
