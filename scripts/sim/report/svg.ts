/** One line of a chart. */
export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [number, number])[];
  /** Half widths of the confidence intervals, in the order of the points. */
  readonly errors?: readonly number[];
}

/** A chart of lines. */
export interface Chart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
  readonly logY?: boolean;
  /** Labels of the x values in place of numbers, by index. */
  readonly xNames?: readonly string[];
}

const width = 760;
const height = 380;
const margin = { left: 72, right: 190, top: 40, bottom: 52 };
const colours = ["#1f5fa8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#2c3e50"];

/** Draws a chart as a self-contained SVG that reads on light and dark pages. */
export function drawChart(chart: Chart): string {
  const xs = chart.series.flatMap(({ points }) => points.map(([x]) => x));
  const ys = chart.series.flatMap(({ points }) => points.map(([, y]) => y)).filter(Number.isFinite);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const y1 = Math.max(...ys) * 1.05;
  const y0 = chart.logY === true ? Math.max(1e-6, Math.min(...ys) * 0.8) : Math.min(0, ...ys);
  const plotWidth = width - margin.left - margin.right;
  const plotHeight = height - margin.top - margin.bottom;
  const px = (x: number): number => margin.left + (x1 === x0 ? 0.5 : (x - x0) / (x1 - x0)) * plotWidth;
  const py = (y: number): number => {
    const share = chart.logY === true ? Math.log(Math.max(y, y0) / y0) / Math.log(y1 / y0) : (y - y0) / (y1 - y0 || 1);
    return margin.top + (1 - share) * plotHeight;
  };
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    text(margin.left, 22, chart.title, { size: 15 }),
    text(margin.left + plotWidth / 2, height - 12, chart.xLabel, { anchor: "middle" }),
    `<g transform="translate(16 ${margin.top + plotHeight / 2}) rotate(-90)">${text(0, 0, chart.yLabel, { anchor: "middle" })}</g>`,
  ];
  for (const y of chart.logY === true ? logTicks(y0, y1) : linearTicks(y0, y1)) {
    parts.push(
      `<line x1="${margin.left}" x2="${margin.left + plotWidth}" y1="${py(y).toFixed(1)}" y2="${py(y).toFixed(1)}" stroke="#e3e6ea"/>`,
      text(margin.left - 6, py(y) + 4, short(y), { anchor: "end" }),
    );
  }
  for (const x of [...new Set(xs)].toSorted((a, b) => a - b)) {
    parts.push(text(px(x), margin.top + plotHeight + 18, chart.xNames?.[x] ?? short(x), { anchor: "middle" }));
  }
  chart.series.forEach((series, index) => parts.push(...drawSeries(series, index, px, py, margin.left + plotWidth)));
  parts.push("</svg>");
  return `${parts.join("\n")}\n`;
}

function drawSeries(
  series: Series,
  index: number,
  px: (x: number) => number,
  py: (y: number) => number,
  right: number,
): string[] {
  const colour = colours[index % colours.length] as string;
  const points = series.points.filter(([, y]) => Number.isFinite(y));
  const path = points.map(([x, y], at) => `${at === 0 ? "M" : "L"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join(" ");
  const legendY = margin.top + 14 + index * 18;
  const parts = [
    `<path d="${path}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    `<rect x="${right + 14}" y="${legendY - 9}" width="12" height="4" fill="${colour}"/>`,
    text(right + 32, legendY - 3, series.name, {}),
  ];
  points.forEach(([x, y], at) => {
    const error = series.errors?.[at];
    if (error !== undefined && Number.isFinite(error)) {
      const at0 = py(Math.max(0, y - error)).toFixed(1);
      const at1 = py(y + error).toFixed(1);
      parts.push(
        `<line x1="${px(x).toFixed(1)}" x2="${px(x).toFixed(1)}" y1="${at0}" y2="${at1}" stroke="${colour}"/>`,
      );
    }
    parts.push(`<circle cx="${px(x).toFixed(1)}" cy="${py(y).toFixed(1)}" r="3" fill="${colour}"/>`);
  });
  return parts;
}

function text(
  x: number,
  y: number,
  value: string,
  style: { readonly anchor?: string; readonly size?: number },
): string {
  const escaped = value.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${style.anchor ?? "start"}" font-size="${style.size ?? 12}" fill="#22303c">${escaped}</text>`;
}

function linearTicks(low: number, high: number): number[] {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(Number(tick.toPrecision(6)));
  return ticks;
}

function logTicks(low: number, high: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const factor of [1, 3])
      if (factor * 10 ** power >= low && factor * 10 ** power <= high) ticks.push(factor * 10 ** power);
  }
  return ticks;
}

function short(value: number): string {
  return value >= 10_000 ? `${Math.round(value / 1000)}k` : String(Number(value.toPrecision(3)));
}
