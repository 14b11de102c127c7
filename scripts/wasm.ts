import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import wabt from "wabt";
import { runCommand, toggle, type Values } from "./command-line.ts";

const source = new URL("../gateway/routing/hash/xxh3.wat", import.meta.url);
const target = new URL("../gateway/routing/hash/xxh3-module.ts", import.meta.url);

/** The text that the module of the hash must have, from its source. Throws with the assembler's message when the source is wrong. */
export async function renderHashModule(): Promise<string> {
  const assembler = await wabt();
  const assembled = assembler.parseWat("xxh3.wat", await readFile(source));
  try {
    const { buffer } = assembled.toBinary({});
    return [
      "// Generated from xxh3.wat by `npm run wasm`.",
      "// biome-ignore-all format: generated",
      "",
      "/** The WebAssembly module of the hash, base64. */",
      `export const xxh3Module =`,
      `  "${Buffer.from(buffer).toString("base64")}";`,
      "",
    ].join("\n");
  } finally {
    assembled.destroy();
  }
}

/** The text that the module of the hash has; empty when there is none. */
export async function readHashModule(): Promise<string> {
  return readFile(target, "utf8").catch(() => "");
}

const command = {
  name: "npm run wasm --",
  about:
    "Assembles gateway/routing/hash/xxh3.wat and writes the module that the runtime imports, so that running T4T needs no assembler.",
  options: { check: toggle("writes nothing; exits with 1 when xxh3-module.ts differs from the assembler's output") },
  examples: ["--check"],
};

async function main({ check }: Values<typeof command.options>): Promise<number> {
  const text = await renderHashModule();
  if (text === (await readHashModule())) {
    console.log("gateway/routing/hash/xxh3-module.ts is up to date");
    return 0;
  }
  if (check) {
    console.error("gateway/routing/hash/xxh3-module.ts differs from xxh3.wat: run npm run wasm");
    return 1;
  }
  await writeFile(target, text);
  console.log("wrote gateway/routing/hash/xxh3-module.ts");
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await runCommand(command, main);
