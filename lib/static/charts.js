// Draws each chart of the page when it nears the viewport, over the static picture that
// stands there already. Vega itself loads once, from this folder, and only if needed.
(() => {
  "use strict";
  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const NARROW = 480;
  let vega;

  function loadVega() {
    vega ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = folder + "vega.js";
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
    return vega;
  }

  function specification(chart) {
    const spec = JSON.parse(chart.querySelector(".chart-spec").textContent);
    const config = structuredClone(window.chartConfig);
    if (chart.clientWidth < NARROW) {
      Object.assign(config.legend, { columns: 1, direction: "vertical" });
      Object.assign(config.axis, { labelFontSize: 11, titleFontSize: 11.5 });
    }
    for (const param of spec.params ?? []) {
      if (param.bind && chart.view) param.value = chart.view.signal(param.name);
    }
    return { ...spec, config };
  }

  async function draw(chart) {
    if (chart.dataset.state === "drawing" || !chart.clientWidth) return;
    chart.dataset.state = "drawing";
    await loadVega();
    const plot = chart.querySelector(".chart-plot");
    const controls = chart.querySelector(".chart-controls");
    const fresh = document.createElement("div");
    fresh.className = "chart-live chart-pending";
    plot.append(fresh);
    const spec = specification(chart);
    controls.replaceChildren();
    const result = await window.vegaEmbed(fresh, spec, {
      actions: false, renderer: "svg", bind: controls, tooltip: { theme: "custom" },
    });
    chart.view?.finalize();
    chart.view = result.view;
    chart.width = chart.clientWidth;
    plot.replaceChildren(fresh);
    fresh.classList.remove("chart-pending");
    nameControls(controls);
    chart.dataset.state = "live";
  }

  function nameControls(controls) {
    for (const input of controls.querySelectorAll("input, select")) {
      const name = input.closest(".vega-bind")?.querySelector(".vega-bind-name");
      if (name) input.setAttribute("aria-label", name.textContent);
    }
  }

  function refit(chart) {
    if (chart.dataset.state !== "live" || !chart.clientWidth || chart.clientWidth === chart.width) return;
    const crossed = chart.width < NARROW !== chart.clientWidth < NARROW;
    chart.width = chart.clientWidth;
    if (crossed) draw(chart);
    else chart.view.width(chart.clientWidth).runAsync();
  }

  const charts = [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting && !entry.target.dataset.state) draw(entry.target);
      }
    },
    { rootMargin: "500px 0px" },
  );
  const sized = new ResizeObserver((entries) => {
    for (const entry of entries) requestAnimationFrame(() => refit(entry.target));
  });
  for (const chart of charts) {
    near.observe(chart);
    sized.observe(chart);
  }
})();
