import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { writeDeployment } from "../../chain/deployment.ts";
import {
  type ChainSettings,
  chainSettingsShape,
  checkChainVariables,
  loadChainSettings,
} from "../../chain/settings.ts";
import { readSettings, type SettingFault, SettingsError } from "../../protocol/settings.ts";

const key = `0x${"ab".repeat(32)}`;
const registry = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const escrow = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512";
const byAddress = { T4T_CHAIN_ID: "31337", T4T_REGISTRY_ADDRESS: registry, T4T_ESCROW_ADDRESS: escrow.toLowerCase() };
const least = { T4T_RPC_URL: "http://127.0.0.1:8545/secret-path", T4T_PRIVATE_KEY: key, ...byAddress };

async function load(environment: Readonly<Record<string, string>>): Promise<ChainSettings> {
  return await loadChainSettings(readSettings(chainSettingsShape, environment, { check: checkChainVariables }));
}

async function faults(environment: Readonly<Record<string, string>>): Promise<readonly SettingFault[]> {
  const error = await load(environment).catch((reason: unknown) => reason);
  if (error instanceof SettingsError) return error.faults;
  throw new Error(`expected faults, got ${String(error)}`);
}

describe("the chain's settings", () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "t4t-settings-"));
  });

  afterEach(async () => {
    await rm(directory, { recursive: true });
  });

  it("take addresses from variables, with their checksum, and have defaults for the rest", async () => {
    const settings = await load(least);
    expect(settings.target).to.deep.equal({
      chainId: 31_337,
      registry,
      escrow,
      token: undefined,
      deployedAtBlock: undefined,
    });
    expect(settings).to.include({ pollMs: 1000, confirmations: 1, dataDir: "data", privateKey: key, wsUrl: undefined });
  });

  it("take addresses from a deployment file", async () => {
    const file = join(directory, "deployment.json");
    const deployment = { chainId: 5, registry, escrow, token: registry, deployedAtBlock: 17 } as const;
    await writeDeployment(file, deployment);
    const settings = await load({ T4T_RPC_URL: "wss://node.test", T4T_PRIVATE_KEY: key, T4T_DEPLOYMENT_FILE: file });
    expect(settings.target).to.deep.equal(deployment);
    expect(settings.wsUrl, "a WebSocket RPC wakes as well").to.equal("wss://node.test");
  });

  it("keep the journal for a month, for ever at 0, and never shorter than a job may last on chain", async () => {
    expect((await load(least)).journalKeepMs).to.equal(30 * 86_400_000);
    expect((await load({ ...least, T4T_JOURNAL_DAYS: "0" })).journalKeepMs).to.equal(0);
    expect((await faults({ ...least, T4T_JOURNAL_DAYS: "7" })).map(({ variable }) => variable)).to.deep.equal([
      "T4T_JOURNAL_DAYS",
    ]);
  });

  it("name the variable whose file is missing or damaged", async () => {
    const file = join(directory, "deployment.json");
    const environment = { T4T_RPC_URL: "http://x", T4T_PRIVATE_KEY: key, T4T_DEPLOYMENT_FILE: file };
    expect((await faults(environment)).map((fault) => fault.variable)).to.deep.equal(["T4T_DEPLOYMENT_FILE"]);
    await writeFile(file, JSON.stringify({ chainId: 1, registry: "0x12", escrow, token: escrow, deployedAtBlock: 1 }));
    expect((await faults(environment))[0]?.message).to.match(/registry/);
  });

  it("refuse a file together with addresses, half the addresses, and none of either", async () => {
    const both = await faults({ ...least, T4T_DEPLOYMENT_FILE: "x.json" });
    expect(both.map((fault) => fault.variable)).to.include.members(Object.keys(byAddress));
    const { T4T_ESCROW_ADDRESS: _escrow, ...half } = least;
    expect((await faults(half)).map((fault) => fault.variable)).to.deep.equal(["T4T_ESCROW_ADDRESS"]);
    const none = await faults({ T4T_RPC_URL: "http://x", T4T_PRIVATE_KEY: key });
    expect(none.map((fault) => fault.variable)).to.deep.equal(["T4T_DEPLOYMENT_FILE"]);
  });

  it("read the key from a file that only its owner can read", async () => {
    const file = join(directory, "key");
    await writeFile(file, `${key}\n`, { mode: 0o600 });
    const { T4T_PRIVATE_KEY: _key, ...rest } = least;
    expect((await load({ ...rest, T4T_PRIVATE_KEY_FILE: file })).privateKey).to.equal(key);
    await chmod(file, 0o644);
    expect((await faults({ ...rest, T4T_PRIVATE_KEY_FILE: file }))[0]?.message).to.match(/chmod 600/);
  });

  it("never repeat a key, right or wrong", async () => {
    const file = join(directory, "key");
    await writeFile(file, `${key}ff`, { mode: 0o600 });
    const { T4T_PRIVATE_KEY: _key, ...rest } = least;
    const found = [
      ...(await faults({ ...rest, T4T_PRIVATE_KEY_FILE: file })),
      ...(await faults({ ...rest, T4T_PRIVATE_KEY: `${key}ff` })),
      ...(await faults({ ...rest, T4T_PRIVATE_KEY: key, T4T_PRIVATE_KEY_FILE: file })),
    ];
    expect(found.length).to.be.greaterThan(2);
    expect(JSON.stringify(found)).not.to.include("abab");
  });

  it("refuse having no key, naming both ways to give one", async () => {
    const { T4T_PRIVATE_KEY: _key, ...rest } = least;
    expect((await faults(rest))[0]?.message).to.match(/T4T_PRIVATE_KEY/);
  });
});
