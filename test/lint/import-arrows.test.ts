import { expect } from "chai";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { z } from "zod";

const root = path.join(import.meta.dirname, "../..");

/** Folders and what each may import of ours; what is not listed is forbidden. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  protocol: ["protocol"],
  chain: ["chain", "protocol"],
  store: ["store", "protocol"],
  gateway: ["gateway", "chain", "store", "protocol"],
  "gateway/routing": ["gateway", "chain", "store", "protocol"],
  provider: ["provider", "chain", "store", "protocol"],
  "scripts/backend": ["protocol"],
};
const OURS = ["protocol", "chain", "store", "gateway", "provider", "contracts", "test", "scripts"];
const PURE = ["protocol", "gateway/routing"];
const IMPURE = Object.keys(MAY_IMPORT).filter((folder) => !PURE.includes(folder));
const DEVELOPMENT_ONLY = ["hardhat", "hardhat/config", "@nomicfoundation/hardhat-ethers", "ethers", "mocha", "chai"];

/** What each way to bring a module in looks like. */
const FORMS: Readonly<Record<string, (module: string) => string>> = {
  import: (module) => `import { value } from "${module}";\nexport const copy = value;\n`,
  "import type": (module) => `import type { Value } from "${module}";\nexport type Copy = Value;\n`,
  "export from": (module) => `export { value } from "${module}";\n`,
  "export star": (module) => `export * from "${module}";\n`,
  "dynamic import": (module) => `export const copy = await import("${module}");\n`,
  "side effect": (module) => `import "${module}";\n`,
};

const CLOCK_AND_CHANCE: Readonly<Record<string, string>> = {
  "Math.random": "export const a = Math.random();\n",
  "destructured Math.random": "const { random } = Math;\nexport const a = random();\n",
  "Date.now": "export const a = Date.now();\n",
  "new Date()": "export const a = new Date();\n",
  "performance.now": "export const a = performance.now();\n",
  setTimeout: "export const a = setTimeout(() => 1, 1);\n",
  setInterval: "export const a = setInterval(() => 1, 1);\n",
  globalThis: "export const a = globalThis.Date.now();\n",
  "node:timers": 'import { setTimeout } from "node:timers";\nexport const a = setTimeout;\n',
  "node:timers/promises": 'import { setTimeout } from "node:timers/promises";\nexport const a = setTimeout;\n',
  randomUUID: 'import { randomUUID } from "node:crypto";\nexport const a = randomUUID();\n',
  "the network": 'import { request } from "node:http";\nexport const a = request;\n',
};
const PURE_CODE =
  'import { createHash } from "node:crypto";\nexport const a = [createHash("sha256"), Math.max(1, 2)];\n';

interface Sample {
  readonly what: string;
  readonly file: string;
  readonly source: string;
  readonly allowed: boolean;
}

const samples: Sample[] = [];
/** A bad import is bad in the folder itself and in one below it. */
function add(folder: string, what: string, allowed: boolean, source: (up: string) => string): void {
  for (const below of ["", "/below"]) {
    const up = "../".repeat(`${folder}${below}`.split("/").length);
    const file = `${folder}${below}/sample-${samples.length}.ts`;
    samples.push({ what: `${folder}${below}: ${what}`, file, source: source(up), allowed });
  }
}
for (const [folder, mayImport] of Object.entries(MAY_IMPORT)) {
  for (const other of OURS) {
    const allowed = mayImport.includes(other);
    for (const [form, write] of Object.entries(FORMS)) {
      add(folder, `${form} of ${other}/`, allowed, (up) => write(`${up}${other}/module.ts`));
    }
  }
  for (const name of DEVELOPMENT_ONLY) add(folder, `import of ${name}`, false, () => `import "${name}";\n`);
  for (const name of ["viem", "zod"]) add(folder, `import of ${name}`, true, () => `import "${name}";\n`);
}
for (const [what, source] of Object.entries(CLOCK_AND_CHANCE)) {
  for (const folder of PURE) add(folder, what, false, () => source);
  for (const folder of IMPURE) add(folder, what, true, () => source);
}
for (const folder of PURE) add(folder, "pure code", true, () => PURE_CODE);

describe("lint rules for the arrows between folders", () => {
  let folder = "";
  /** Rules that oxlint reports, by file. */
  let reports: ReadonlyMap<string, ReadonlySet<string>>;

  before(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), "t4t-lint-"));
    const write = (file: string, source: string): void => {
      mkdirSync(path.join(folder, path.dirname(file)), { recursive: true });
      writeFileSync(path.join(folder, file), source);
    };
    for (const file of [".oxlintrc.json", "tsconfig.json", "package.json"]) {
      copyFileSync(path.join(root, file), path.join(folder, file));
    }
    symlinkSync(path.join(root, "node_modules"), path.join(folder, "node_modules"));
    for (const name of OURS) write(`${name}/module.ts`, "export const value = 1;\nexport type Value = number;\n");
    for (const { file, source } of samples) write(file, source);
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [path.join(root, "node_modules/oxlint/bin/oxlint"), "--format", "json", ...Object.keys(MAY_IMPORT)],
      { cwd: folder, encoding: "utf8", maxBuffer: 2 ** 28 },
    );
    expect(stderr).to.equal("");
    reports = readReports(stdout);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const isArrow = (rule: string): boolean => /^eslint\(no-restricted-(imports|globals|properties)\)$/.test(rule);

  it("refuse every forbidden import, clock and random source", () => {
    const missed = samples.filter(({ allowed, file }) => !allowed && ![...(reports.get(file) ?? [])].some(isArrow));
    expect(missed.map(({ what }) => what)).to.deep.equal([]);
  });

  it("accept everything else", () => {
    const refused = samples.filter(({ allowed, file }) => allowed && reports.has(file));
    expect(refused.map(({ what, file }) => `${what}: ${[...(reports.get(file) ?? [])].join()}`)).to.deep.equal([]);
  });

  it("look at enough samples to mean something", () => {
    expect(samples.filter(({ allowed }) => allowed)).to.have.length.greaterThan(100);
    expect(samples.filter(({ allowed }) => !allowed)).to.have.length.greaterThan(300);
  });
});

function readReports(json: string): ReadonlyMap<string, ReadonlySet<string>> {
  const schema = z.object({ diagnostics: z.array(z.object({ filename: z.string(), code: z.string().optional() })) });
  const reports = new Map<string, Set<string>>();
  for (const { filename, code } of schema.parse(JSON.parse(json)).diagnostics) {
    reports.set(filename, (reports.get(filename) ?? new Set()).add(code ?? "unknown"));
  }
  return reports;
}
