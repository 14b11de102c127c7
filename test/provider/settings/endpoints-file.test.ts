import { expect } from "chai";
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../chain/system-clock.ts";
import { EndpointsFileError, readEndpointsFile } from "../../../provider/settings/endpoints-file.ts";
import type { EndpointsConfig } from "../../../provider/settings/endpoints-source.ts";
import { openEndpointsStore } from "../../../provider/settings/endpoints-store.ts";
import { until } from "../../support/until.ts";

const good = {
  backends: [{ name: "gpu", url: "http://127.0.0.1:8000/v1", maxConcurrent: 3, clusterId: "c", initialInputTps: 12.5 }],
  offerings: [{ model: "a/b", backend: "gpu", inputPrice: "1", outputPrice: "2", contextLength: 8192 }],
};

describe("the endpoints file", () => {
  let folder: string;
  let file: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-endpoints-"));
    file = join(folder, "endpoints.json");
  });

  afterEach(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  async function read(value: unknown, environment: Record<string, string> = {}): Promise<EndpointsConfig> {
    await writeFile(file, typeof value === "string" ? value : JSON.stringify(value));
    return await readEndpointsFile(file, environment);
  }

  async function faultsOf(value: unknown, environment: Record<string, string> = {}): Promise<string> {
    try {
      await read(value, environment);
      return "";
    } catch (error) {
      expect(error).to.be.instanceOf(EndpointsFileError);
      return (error as EndpointsFileError).message;
    }
  }

  it("gives backends and offerings", async () => {
    const config = await read({ ...good, maxConcurrentJobs: 5 });
    expect(config.maxConcurrentJobs).to.equal(5);
    expect(config.backends.get("gpu")).to.include({
      url: "http://127.0.0.1:8000",
      maxConcurrent: 3,
      clusterId: "c",
      initialInputTps: 12.5,
    });
    expect(config.offerings.get("a/b")).to.deep.include({
      backendModel: "a/b",
      prices: { inputPrice: 1n, outputPrice: 2n },
    });
  });

  it("is refused for an unknown field anywhere, as a misspelt one would silently be its default", async () => {
    expect(await faultsOf({ ...good, maxConcurentJobs: 1 })).to.include("maxConcurentJobs");
    expect(await faultsOf({ ...good, backends: [{ ...good.backends[0], apikey: "x" }] })).to.include("apikey");
    expect(await faultsOf({ ...good, offerings: [{ ...good.offerings[0], price: "1" }] })).to.include("price");
  });

  it("names all faults between its parts at once", async () => {
    const faults = await faultsOf({
      backends: [good.backends[0], { ...good.backends[0], apiKeyEnv: "NOT_SET" }],
      offerings: [good.offerings[0], { ...good.offerings[0], backend: "cpu", inputPrice: "0", outputPrice: "0" }],
    });
    for (const fault of [
      "backends.1.name",
      "NOT_SET",
      "offerings.1.model",
      "offerings.1.backend",
      "offerings.1.inputPrice",
    ]) {
      expect(faults).to.include(fault);
    }
  });

  it("is refused for what the chain would refuse: long model ids, huge prices, no context", async () => {
    const offering = good.offerings[0];
    for (const change of [
      { model: "é".repeat(65) },
      { inputPrice: String(2n ** 96n) },
      { inputPrice: 1 },
      { inputPrice: "1.5" },
      { contextLength: 0 },
    ]) {
      expect(await faultsOf({ ...good, offerings: [{ ...offering, ...change }] }), JSON.stringify(change)).to.include(
        "offerings.0",
      );
    }
  });

  it("is refused when it is no JSON or cannot be read", async () => {
    expect(await faultsOf("{")).to.include("not JSON");
    await rm(file);
    let thrown: unknown;
    try {
      await readEndpointsFile(file, {});
    } catch (error) {
      thrown = error;
    }
    expect(thrown).to.be.instanceOf(EndpointsFileError);
  });

  it("takes keys from a variable or from a file that nobody else can read, and never repeats them", async () => {
    const withEnv = { ...good, backends: [{ ...good.backends[0], apiKeyEnv: "GPU_KEY" }] };
    expect((await read(withEnv, { GPU_KEY: "sk-1" })).backends.get("gpu")?.apiKey?.reveal()).to.equal("sk-1");
    expect(await faultsOf(withEnv, { GPU_KEY: "sk bad\n" }))
      .to.match(/header/)
      .and.not.include("sk bad");
    const keyFile = join(folder, "key");
    await writeFile(keyFile, "sk-2\n", { mode: 0o600 });
    const withFile = { ...good, backends: [{ ...good.backends[0], apiKeyFile: keyFile }] };
    expect((await read(withFile)).backends.get("gpu")?.apiKey?.reveal()).to.equal("sk-2");
    await chmod(keyFile, 0o644);
    expect(await faultsOf(withFile))
      .to.include("chmod 600")
      .and.not.include("sk-2");
  });

  it("finds a key beside itself, wherever the node was started", async () => {
    await mkdir(join(folder, "keys"));
    await writeFile(join(folder, "keys", "gpu.key"), "sk-3\n", { mode: 0o600 });
    const withFile = { ...good, backends: [{ ...good.backends[0], apiKeyFile: join("keys", "gpu.key") }] };
    expect((await read(withFile)).backends.get("gpu")?.apiKey?.reveal()).to.equal("sk-3");
    const missing = { ...good, backends: [{ ...good.backends[0], apiKeyFile: "other.key" }] };
    expect(await faultsOf(missing)).to.include(`apiKeyFile: ${join(folder, "other.key")} cannot be read`);
  });

  it("is followed: a replaced file takes effect, a bad one keeps what is in force and is complained of once", async () => {
    await writeFile(file, JSON.stringify(good));
    const changes: EndpointsConfig[] = [];
    const faults: unknown[] = [];
    const store = await openEndpointsStore({
      source: { kind: "file", path: file },
      environment: {},
      clock: systemClock,
      onChange: (config) => changes.push(config),
      onFault: (error) => faults.push(error),
    });
    try {
      await store.reload();
      expect(changes, "the same file again is no change").to.have.length(0);
      // As editors do: a new file in the place of the old.
      await writeFile(`${file}.new`, JSON.stringify({ ...good, maxConcurrentJobs: 7 }));
      await rename(`${file}.new`, file);
      await until("the change was taken", () => changes.length === 1);
      expect(store.current.maxConcurrentJobs).to.equal(7);
      await writeFile(file, "{ half");
      await until("the fault was told", () => faults.length === 1);
      await store.reload();
      expect(faults).to.have.length(1);
      expect(store.current.maxConcurrentJobs).to.equal(7);
      await writeFile(file, JSON.stringify({ ...good, maxConcurrentJobs: 0 }));
      await until("the next change was taken", () => changes.length === 2);
      expect(store.current.maxConcurrentJobs).to.equal(0);
    } finally {
      store.close();
    }
  });
});
