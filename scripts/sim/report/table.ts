import type { Estimate } from "./estimate.ts";

/** Lines of a table with aligned columns, the first to the left, the others to the right. */
export function tableOf(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ");
  return [line(header), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** `12.3 ± 0.4`, with as many digits as make sense for the size. */
export function shown({ mean, ci95 }: Estimate, digits = digitsFor(mean)): string {
  return Number.isNaN(ci95) ? mean.toFixed(digits) : `${mean.toFixed(digits)} ± ${ci95.toFixed(digits)}`;
}

function digitsFor(value: number): number {
  const size = Math.abs(value);
  if (size >= 100) return 0;
  if (size >= 10) return 1;
  return size >= 1 ? 2 : 3;
}
