import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { readGatewaySettings } from "../../gateway/settings.ts";
import { SettingsError } from "../../protocol/settings.ts";

const key = `0x${"11".repeat(32)}`;
const usable = {
  T4T_RPC_URL: "http://127.0.0.1:8545",
  T4T_CHAIN_ID: "31337",
  T4T_REGISTRY_ADDRESS: "0x5FbDB2315678afecb367f032d93F642f64180aa3",
  T4T_ESCROW_ADDRESS: "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512",
  T4T_PRIVATE_KEY: key,
};

async function faultsOf(environment: Record<string, string>): Promise<readonly string[]> {
  try {
    await readGatewaySettings({ ...usable, ...environment });
    return [];
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    expect(error.message).to.not.include(key.slice(2));
    return error.faults.map(({ variable }) => variable);
  }
}

describe("a gateway's settings", () => {
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-settings-"));
  });

  after(async () => {
    await rm(folder, { recursive: true });
  });

  it("have the defaults that the design names", async () => {
    const settings = await readGatewaySettings(usable);
    expect(settings).to.include({
      host: "127.0.0.1",
      port: 8484,
      strategy: "cheapest",
      waitLimitMs: 120_000,
      waitPollMs: 5000,
      deadlineSeconds: 900,
      defaultMaxOutputTokens: 16_384,
      headroomRatio: 0.2,
      maxBodyBytes: 20 * 1024 * 1024,
      commitGraceMs: 1500,
      allowPrivateEndpoints: false,
    });
  });

  it("name every fault at once", async () => {
    const faults = await faultsOf({
      T4T_GATEWAY_PORT: "70000",
      T4T_PROVIDER_WAIT_SECONDS: "-1",
      T4T_SELECTION_STRATEGY: "best",
      T4T_ESCROW_HEADROOM_RATIO: "lots",
      T4T_MAX_WAITING: "1.5",
      T4T_MAX_WAITNG: "7",
    });
    expect(faults).to.have.members([
      "T4T_GATEWAY_PORT",
      "T4T_PROVIDER_WAIT_SECONDS",
      "T4T_SELECTION_STRATEGY",
      "T4T_ESCROW_HEADROOM_RATIO",
      "T4T_MAX_WAITING",
      "T4T_MAX_WAITNG",
    ]);
  });

  it("refuse to open a wallet to everybody who reaches the host", async () => {
    expect(await faultsOf({ T4T_GATEWAY_HOST: "0.0.0.0" })).to.deep.equal(["T4T_GATEWAY_HOST"]);
    expect(await faultsOf({ T4T_GATEWAY_HOST: "0.0.0.0", T4T_API_KEYS: "long-enough-key" })).to.deep.equal([]);
    expect(await faultsOf({ T4T_GATEWAY_HOST: "0.0.0.0", T4T_ALLOW_UNAUTHENTICATED: "true" })).to.deep.equal([]);
    for (const host of ["127.0.0.1", "127.0.0.2", "localhost", "::1", "[::1]"]) {
      expect(await faultsOf({ T4T_GATEWAY_HOST: host }), host).to.deep.equal([]);
    }
  });

  it("refuse keys that could be guessed, and a key file that is empty or not there", async () => {
    expect(await faultsOf({ T4T_API_KEYS: "short" })).to.deep.equal(["T4T_API_KEYS"]);
    const file = join(folder, "keys");
    expect(await faultsOf({ T4T_API_KEYS_FILE: file })).to.deep.equal(["T4T_API_KEYS_FILE"]);
    await writeFile(file, "# comment\n\n");
    expect(await faultsOf({ T4T_API_KEYS_FILE: file })).to.deep.equal(["T4T_API_KEYS_FILE"]);
    await writeFile(file, "# comment\nfirst-secret-key\n\nsecond-secret-key\n");
    const settings = await readGatewaySettings({ ...usable, T4T_API_KEYS_FILE: file });
    expect(settings.apiKeys).to.deep.equal(["first-secret-key", "second-secret-key"]);
  });

  it("want the provider of the manual strategy, also where requests may ask for it", async () => {
    expect(await faultsOf({ T4T_SELECTION_STRATEGY: "manual" })).to.deep.equal(["T4T_MANUAL_PROVIDER"]);
    expect(await faultsOf({ T4T_ALLOWED_STRATEGIES: "pulsar,manual" })).to.deep.equal(["T4T_MANUAL_PROVIDER"]);
    expect(await faultsOf({ T4T_ALLOWED_STRATEGIES: "pulsar,fastest" })).to.deep.equal(["T4T_ALLOWED_STRATEGIES"]);
  });

  it("say where the contracts are and whose the wallet is, or what is missing", async () => {
    expect(await faultsOf({ T4T_PRIVATE_KEY: "" })).to.deep.equal(["T4T_PRIVATE_KEY_FILE"]);
    expect(await faultsOf({ T4T_ESCROW_ADDRESS: "" })).to.deep.equal(["T4T_ESCROW_ADDRESS"]);
    expect(await faultsOf({ T4T_METRICS_PORT: "8484" })).to.deep.equal(["T4T_METRICS_PORT"]);
  });

  it("take an environment file that provider nodes share", async () => {
    expect(
      await faultsOf({ T4T_MAX_CONCURRENT_JOBS: "4", T4T_ENDPOINT: "https://gpu.example.com", T4T_STAKE: "5" }),
    ).to.deep.equal([]);
  });
});
