// node scripts/run.mjs FILE [ARGUMENT ...]
//
// Runs a TypeScript file of the project under a Node that can, and says in one line what is missing under one that cannot: such a
// Node would fail at the first import with a stack trace about file extensions. Plain JavaScript, so that every Node can read it.
import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const { engines } = JSON.parse(readFileSync(fileURLToPath(new URL("../package.json", import.meta.url)), "utf8"));
const needed = engines.node.replace(">=", "");

/** Compares two versions by their numbers. */
function isOlder(version, than) {
  const parts = version.split(".").map(Number);
  for (const [index, least] of than.split(".").map(Number).entries()) {
    if (parts[index] !== least) return (parts[index] ?? 0) < least;
  }
  return false;
}

const [file, ...rest] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write("usage: node scripts/run.mjs FILE [ARGUMENT ...]\n");
  process.exitCode = 2;
} else if (isOlder(process.versions.node, needed)) {
  process.stderr.write(
    `T4T needs Node ${needed} or newer, and this is ${process.versions.node}: install one, or use npm start, which brings its own on Linux x64 after npm install.\n`,
  );
  process.exitCode = 1;
} else {
  const url = pathToFileURL(file);
  process.argv = [process.execPath, fileURLToPath(url), ...rest];
  await import(url.href);
}
