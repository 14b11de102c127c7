import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "chai";
import { gatewaySettingsShape } from "../../gateway/settings.ts";
import { providerSettingsShape } from "../../provider/settings/provider-settings.ts";
import { ownVariables, readStartOptions } from "../../scripts/network/start-options.ts";

const root = path.join(import.meta.dirname, "../..");
const page = await readFile(path.join(root, "docs/settings.md"), "utf8");
const settings = { ...gatewaySettingsShape, ...providerSettingsShape };

/** Rows of a chapter: variable and default. */
function rowsOf(chapter: string): ReadonlyMap<string, string> {
  const text = page.split(`\n## ${chapter}\n`)[1]?.split("\n## ")[0] ?? "";
  return new Map(
    [...text.matchAll(/^\| `(T4T_[A-Z_]+)` \| ([^|]*)\|/gm)].map(([, name = "", shown = ""]) => [
      name,
      shown.replaceAll("`", "").trim(),
    ]),
  );
}

const ofPrograms = new Map([...rowsOf("Both"), ...rowsOf("Gateway"), ...rowsOf("Provider node")]);
const ofNetwork = rowsOf("The local network");
const ofTests = rowsOf("Tests");

/** Variables that the files of some folders name, by a pattern whose first group is the name. */
async function namedIn(folders: readonly string[], files: RegExp, pattern: RegExp): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (const folder of folders) {
    const found = await readdir(path.join(root, folder), { recursive: true, withFileTypes: true });
    for (const entry of found) {
      if (!entry.isFile() || !files.test(entry.name)) continue;
      const source = await readFile(path.join(entry.parentPath, entry.name), "utf8");
      for (const [, name = ""] of source.matchAll(pattern)) names.add(name);
    }
  }
  return names;
}

describe("docs/settings.md", () => {
  it("names every variable of gateway and provider, and none that does not exist", () => {
    expect([...ofPrograms.keys()]).to.have.members(Object.keys(settings));
  });

  it("names every variable of the local network that is none of theirs, with its default", () => {
    expect([...ofNetwork.keys()]).to.have.members([...ownVariables].filter((name) => !Object.hasOwn(settings, name)));
    const { chainPort, blockTimeMs, engine, backendPort } = readStartOptions([], {});
    expect(Object.fromEntries(ofNetwork)).to.deep.equal({
      T4T_CHAIN_PORT: String(chainPort),
      T4T_BLOCK_TIME_MS: String(blockTimeMs),
      T4T_ENGINE: engine,
      T4T_BACKEND_PORT: String(backendPort),
    });
  });

  it("names every variable that any code of ours reads, and none that no code reads", async () => {
    const code = ["protocol", "chain", "store", "gateway", "provider", "scripts"];
    const read = new Set([
      ...(await namedIn(code, /\.(ts|mjs|cjs)$/, /\b(T4T_[A-Z_]*[A-Z])\b/g)),
      ...(await namedIn(["test"], /\.ts$/, /\benv(?:\.|\[")(T4T_[A-Z_]*[A-Z])\b/g)),
      ...(await namedIn(["test"], /\.sol$/, /\bvm\.env\w*\("(T4T_[A-Z_]*[A-Z])"/g)),
    ]);
    expect([...ofPrograms.keys(), ...ofNetwork.keys(), ...ofTests.keys()]).to.have.members([...read]);
  });

  it("gives the defaults that the programs have", () => {
    for (const [name, shown] of ofPrograms) {
      const parsed = settings[name as keyof typeof settings].safeParse(undefined);
      if (!parsed.success || parsed.data === undefined) continue;
      expect(shown, name).to.equal(String(parsed.data));
    }
  });
});
