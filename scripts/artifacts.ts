import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import hre from "hardhat";
import { runCommand, toggle, type Values } from "./command-line.ts";

export interface AbiModule {
  readonly contract: string;
  readonly file: string;
  readonly name: string;
}

export const abiModules: readonly AbiModule[] = [
  { contract: "ProviderRegistry", file: "provider-registry.ts", name: "providerRegistry" },
  { contract: "JobEscrow", file: "job-escrow.ts", name: "jobEscrow" },
  { contract: "TestToken", file: "test-token.ts", name: "testToken" },
];

const directory = new URL("../chain/abi/", import.meta.url);

/** The text that a module of `chain/abi` must have, from the compiler's output. */
export async function renderAbiModule(module: AbiModule): Promise<string> {
  const { abi, bytecode } = await hre.artifacts.readArtifact(module.contract);
  return [
    `// Generated from ${module.contract}.sol by \`npm run artifacts\`.`,
    "// biome-ignore-all format: generated",
    "",
    `export const ${module.name}Abi = [`,
    ...(abi as readonly unknown[]).map((entry) => `  ${JSON.stringify(entry)},`),
    "] as const;",
    "",
    `export const ${module.name}Bytecode: \`0x\${string}\` =`,
    `  "${bytecode}";`,
    "",
  ].join("\n");
}

/** The text that a module of `chain/abi` has; empty when there is none. */
export async function readAbiModule(module: AbiModule): Promise<string> {
  return readFile(new URL(module.file, directory), "utf8").catch(() => "");
}

const command = {
  name: "npm run artifacts --",
  about:
    "Compiles the contracts and writes their ABIs and bytecodes, which the runtime imports, so that running T4T needs no compiler.",
  options: {
    check: toggle("writes nothing; exits with 1 when a module of chain/abi differs from the compiler's output"),
  },
  examples: ["--check"],
};

async function main({ check }: Values<typeof command.options>): Promise<number> {
  await hre.tasks.getTask("build").run({ quiet: true });
  const stale: string[] = [];
  for (const module of abiModules) {
    const text = await renderAbiModule(module);
    if (text === (await readAbiModule(module))) continue;
    stale.push(module.file);
    if (!check) await writeFile(new URL(module.file, directory), text);
  }
  if (stale.length > 0 && check) {
    console.error(`chain/abi differs from the contracts (${stale.join(", ")}): run npm run artifacts`);
    return 1;
  }
  console.log(stale.length === 0 ? "chain/abi is up to date" : `written: ${stale.join(", ")}`);
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await runCommand(command, main);
