import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Linux counts CPU time in ticks of 10 ms (USER_HZ is 100 on every supported architecture). */
const microsPerTick = 10_000;

/**
 * CPU time that a process has used so far, user and system, in microseconds; resolution 10 ms on Linux, 10 ms through `ps`
 * elsewhere. Throws when there is no such process.
 */
export function processCpuMicros(pid: number): number {
  if (process.platform === "linux") {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is a name in parentheses that may hold spaces: count from behind it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * microsPerTick;
  }
  const text = execFileSync("ps", ["-o", "time=", "-p", String(pid)], { encoding: "utf8" }).trim();
  const parts = text.split(":").map(Number);
  const seconds = parts.reduce((sum, part) => sum * 60 + part, 0);
  return Math.round(seconds * 1e6);
}
