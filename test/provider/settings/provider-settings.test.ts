import { expect } from "chai";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { SettingsError } from "../../../protocol/settings.ts";
import { readProviderSettings } from "../../../provider/settings/provider-settings.ts";

const key = `0x${"ab".repeat(32)}`;
const secret = "sk-very-secret";

describe("readProviderSettings", () => {
  let folder: string;
  let base: Record<string, string>;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-settings-"));
    const deployment = join(folder, "deployment.json");
    const address = "0x00000000000000000000000000000000000000A1";
    await writeFile(
      deployment,
      JSON.stringify({ chainId: 1, registry: address, escrow: address, token: address, deployedAtBlock: 0 }),
    );
    base = { T4T_RPC_URL: "http://127.0.0.1:8545", T4T_DEPLOYMENT_FILE: deployment, T4T_PRIVATE_KEY: key };
  });

  after(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  const simple = {
    T4T_BACKEND_URL: "http://127.0.0.1:11434/v1/",
    T4T_MODEL: "qwen/3",
    T4T_INPUT_PRICE: "1",
    T4T_OUTPUT_PRICE: "2",
    T4T_CONTEXT_LENGTH: "4096",
  };

  async function faultsOf(environment: Record<string, string>): Promise<readonly string[]> {
    try {
      await readProviderSettings(environment);
      return [];
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      return error.faults.map((fault) => fault.variable);
    }
  }

  it("has the documented defaults, 2 slots among them", async () => {
    const settings = await readProviderSettings({ ...base, ...simple });
    expect(settings).to.include({
      maxConcurrentJobs: 2,
      heartbeatIntervalMs: 300_000,
      unfetchedDeclineMs: 60_000,
      host: "127.0.0.1",
      endpoint: undefined,
      stake: 0n,
    });
  });

  it("takes one backend from plain variables, with or without /v1 in its URL", async () => {
    const { endpoints } = await readProviderSettings({ ...base, ...simple, T4T_BACKEND_API_KEY: secret });
    if (endpoints.kind !== "simple") return expect.fail("not the simple form");
    const [backend] = endpoints.endpoints.backends.values();
    expect(backend?.url).to.equal("http://127.0.0.1:11434");
    expect(endpoints.endpoints.offerings.get("qwen/3")?.prices).to.deep.equal({ inputPrice: 1n, outputPrice: 2n });
  });

  it("never shows a backend's key, however the settings are dumped", async () => {
    const { endpoints } = await readProviderSettings({ ...base, ...simple, T4T_BACKEND_API_KEY: secret });
    const shown = [inspect(endpoints, { depth: 10, showHidden: true })];
    if (endpoints.kind === "simple") {
      for (const backend of endpoints.endpoints.backends.values())
        shown.push(JSON.stringify(backend), String(backend.apiKey));
    }
    for (const text of shown) expect(text).to.not.include(secret);
  });

  it("names every fault at once", async () => {
    const faults = await faultsOf({
      ...base,
      T4T_PROVIDER_PORT: "70000",
      T4T_MAX_CONCURRENT_JOBS: "-1",
      T4T_HEARTBEAT_INTERVAL_SECONDS: "soon",
      T4T_MAX_CONCURENT_JOBS: "3",
      T4T_OWNER: "0x12",
    });
    expect(faults).to.have.members([
      "T4T_PROVIDER_PORT",
      "T4T_MAX_CONCURRENT_JOBS",
      "T4T_HEARTBEAT_INTERVAL_SECONDS",
      "T4T_MAX_CONCURENT_JOBS",
      "T4T_ENDPOINTS_FILE",
      "T4T_OWNER",
    ]);
  });

  it("wants either the file or all of the plain form", async () => {
    expect(await faultsOf(base)).to.deep.equal(["T4T_ENDPOINTS_FILE"]);
    expect(await faultsOf({ ...base, T4T_BACKEND_URL: "http://x" })).to.deep.equal([
      "T4T_MODEL",
      "T4T_INPUT_PRICE",
      "T4T_OUTPUT_PRICE",
      "T4T_CONTEXT_LENGTH",
    ]);
    expect(await faultsOf({ ...base, ...simple, T4T_ENDPOINTS_FILE: "x" })).to.deep.equal(Object.keys(simple));
    expect(await faultsOf({ ...base, ...simple, T4T_INPUT_PRICE: "0", T4T_OUTPUT_PRICE: "0" })).to.deep.equal([
      "T4T_INPUT_PRICE",
    ]);
  });

  it("wants to know where gateways can call when it listens everywhere", async () => {
    expect(await faultsOf({ ...base, ...simple, T4T_PROVIDER_HOST: "0.0.0.0" })).to.deep.equal(["T4T_ENDPOINT"]);
    const settings = await readProviderSettings({
      ...base,
      ...simple,
      T4T_PROVIDER_HOST: "0.0.0.0",
      T4T_ENDPOINT: "https://p.example/x/",
    });
    expect(settings.endpoint).to.equal("https://p.example/x");
  });
});
