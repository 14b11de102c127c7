import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "chai";
import { loadEngine } from "../../scripts/backend/load-engine.ts";
import { repositoryRoot } from "../../scripts/network/chain-process.ts";
import { inheritedEnvironment } from "../../scripts/network/child-process.ts";

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly seconds: number;
}

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(repositoryRoot, "scripts", "start.ts"), ...args], {
      cwd: repositoryRoot,
      env: { ...inheritedEnvironment(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr, seconds: (performance.now() - startedAt) / 1000 }));
  });
}

async function takenPort(): Promise<{ readonly port: number; readonly server: Server }> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  return { port: typeof address === "object" && address !== null ? address.port : 0, server };
}

describe("npm start", function () {
  this.timeout(120_000);
  let folder: string;
  const runOnce = async (): Promise<Ended> =>
    await start(["--once", "--json"], { T4T_GATEWAY_PORT: "0", T4T_ENGINE: "text", T4T_DATA_DIR: folder });

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-start-"));
  });

  after(async () => {
    await rm(folder, { recursive: true });
  });

  it("ends with exit code 0 and a done line once its job is settled, when told --once --json", async () => {
    const { code, stdout, stderr } = await runOnce();
    expect(code, stderr).to.equal(0);
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const ready = lines[0];
    expect(ready).to.include({ event: "ready", chainId: 31337 });
    expect(ready).to.have.all.keys("event", "gateway", "rpc", "chainId", "contracts", "providers");
    expect(ready?.contracts).to.have.all.keys("registry", "escrow", "token");
    const providers = ready?.providers as Record<string, unknown>[];
    expect(providers.map(({ maxConcurrentJobs }) => maxConcurrentJobs)).to.deep.equal([1, 2, 4]);
    for (const provider of providers)
      expect(provider).to.have.all.keys("address", "endpoint", "models", "maxConcurrentJobs");
    const events = lines.slice(1, -1).map(({ event }) => event);
    for (const step of ["provider_selected", "job_posted", "provider_acked", "delivered", "settled"]) {
      expect(events).to.include(step);
    }
    const done = lines.at(-1);
    expect(done).to.have.all.keys("event", "jobId", "provider", "usage", "paid", "transactions");
    expect(done?.event).to.equal("done");
    expect(Number(done?.paid)).to.be.greaterThan(0);
  });

  it("runs a second time on the data folder of the first, whose chain is gone, with llama.cpp where it runs and a key", async () => {
    const engine = await loadEngine({ kind: "auto", dataDir: join(folder, "model"), log: () => undefined });
    const { code, stdout, stderr } = await start(["--once"], {
      T4T_GATEWAY_PORT: "0",
      T4T_DATA_DIR: folder,
      T4T_API_KEYS: "a-key-of-the-gateway",
      T4T_PROVIDER_WAIT_SECONDS: "0",
    });
    expect(code, stderr).to.equal(0);
    expect(stdout).to.include(`the embedded model runs on the ${engine.name} engine`);
    expect(await readdir(join(folder, "gateway"))).to.include("earlier-1");
    await engine.close();
  });

  it("names a chain or backend that does not answer, before it starts anything", async () => {
    const { port, server } = await takenPort();
    server.close();
    const noChain = await start(["--once"], {
      T4T_GATEWAY_PORT: "0",
      T4T_RPC_URL: `http://127.0.0.1:${port}/secret-path`,
      T4T_PRIVATE_KEY: `0x${"1".repeat(64)}`,
    });
    expect(noChain.stderr)
      .to.include(`T4T_RPC_URL: no chain answers at 127.0.0.1:${port}`)
      .and.not.include("secret-path");
    const noBackend = await start(["--once"], {
      T4T_GATEWAY_PORT: "0",
      T4T_BACKEND_URL: `http://127.0.0.1:${port}`,
      T4T_BACKEND_MODEL: "llama3",
    });
    expect(noBackend.stderr).to.include(`T4T_BACKEND_URL: nothing answers at 127.0.0.1:${port} (ECONNREFUSED)`);
    expect(noBackend.stdout).to.not.include("starting a Hardhat chain");
    expect([noChain.code, noBackend.code]).to.deep.equal([1, 1]);
  });

  it("prints its help whatever else is set", async () => {
    const { code, stdout } = await start(["--help"], { T4T_NO_SUCH_VARIABLE: "1" });
    expect(code).to.equal(0);
    expect(stdout).to.include("npm start -- --once");
  });

  it("names every bad flag and variable at once, and starts nothing", async () => {
    const { code, stderr, seconds } = await start(["--onec"], {
      T4T_GATEWAY_PORT: "70000",
      T4T_RPC_URL: "ftp://example.com",
      T4T_ENGINE: "gpt",
      T4T_PRIVATE_KEY: "0xsecret-that-must-not-be-printed",
    });
    expect(code).to.equal(2);
    for (const name of ["--onec", "T4T_GATEWAY_PORT", "T4T_RPC_URL", "T4T_ENGINE", "T4T_PRIVATE_KEY"])
      expect(stderr).to.include(name);
    expect(stderr).to.not.include("secret-that-must-not-be-printed");
    expect(seconds).to.be.lessThan(20);
  });

  it("lets a running stream end at Ctrl-C, which a terminal and npm tell twice, and leaves no process behind", async () => {
    const child = spawn(process.execPath, [join(repositoryRoot, "scripts", "start.ts"), "--json"], {
      cwd: repositoryRoot,
      env: { ...inheritedEnvironment(), T4T_GATEWAY_PORT: "0", T4T_ENGINE: "text" },
      stdio: ["ignore", "pipe", "inherit"],
      // A group of its own, as a shell gives it: Ctrl-C goes to all of the group.
      detached: true,
    });
    const exited = new Promise<number | null>((resolve) => {
      child.once("exit", resolve);
    });
    const [first] = (await once(createInterface(child.stdout), "line")) as [string];
    const ready = JSON.parse(first) as { gateway: string; rpc: string; providers: { endpoint: string }[] };
    const response = await fetch(`${ready.gateway}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: "t4t/tiny",
        messages: [{ role: "user", content: "Say much." }],
        max_tokens: 150,
        ignore_eos: true,
        stream: true,
      }),
    });
    const reader = (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("content")) text += (await reader.read()).value ?? "";
    process.kill(-(child.pid ?? 0), "SIGINT");
    process.kill(child.pid ?? 0, "SIGINT");
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) text += piece.value;
    expect(text).to.match(/data: \[DONE\]\s+$/);
    expect(await exited).to.equal(130);
    for (const url of [ready.gateway, ready.rpc, ...ready.providers.map(({ endpoint }) => endpoint)]) {
      const left: unknown = await fetch(url).catch((error: unknown) => error);
      expect(left, url).to.be.instanceOf(TypeError);
    }
  });

  it("says which variable's port is taken before it starts anything that costs time", async () => {
    const { port, server } = await takenPort();
    const { code, stderr, stdout } = await start(["--once"], { T4T_GATEWAY_PORT: String(port), T4T_ENGINE: "text" });
    server.close();
    expect(code).to.equal(1);
    expect(stderr).to.include("T4T_GATEWAY_PORT").and.include(String(port));
    expect(stdout).to.not.include("starting a Hardhat chain");
  });

  it("names a variable that the gateway does not know, instead of ignoring a typing error", async () => {
    const { code, stderr, stdout } = await start(["--once"], {
      T4T_GATEWAY_PORT: "0",
      T4T_ENGINE: "text",
      T4T_PROVIDER_WIAT_SECONDS: "5",
    });
    expect(code).to.equal(2);
    expect(stderr).to.include("T4T_PROVIDER_WIAT_SECONDS").and.include("T4T_PROVIDER_WAIT_SECONDS");
    expect(stdout).to.equal("");
  });
});
