import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { MainOptionsError, readMainOptions } from "../../../scripts/backend/main-options.ts";

function start(args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, ["scripts/backend/main.ts", ...args], {
    env: { PATH: process.env.PATH, ...env },
  });
  const exited = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  return { child, exited, stderr: text(child.stderr) };
}

async function firstLine(child: ReturnType<typeof start>["child"]): Promise<string> {
  let received = "";
  for await (const part of child.stdout) {
    received += String(part);
    if (received.includes("\n")) break;
  }
  return received;
}

describe("node backend/main.ts", () => {
  let dataDir: string;
  before(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "t4t-main-"));
  });
  after(async () => {
    await rm(dataDir, { recursive: true });
  });

  for (const engine of ["text", "auto"]) {
    it(`says in one line where it listens, serves, and ends at SIGTERM with nothing on standard error (${engine})`, async () => {
      const { child, exited, stderr } = start([
        "--port",
        "0",
        "--engine",
        engine,
        "--model",
        "a",
        "--model",
        "b/c",
        "--data-dir",
        dataDir,
      ]);
      const ready = JSON.parse(await firstLine(child)) as {
        event: string;
        url: string;
        engine: string;
        models: string[];
      };
      expect(ready).to.deep.include({ event: "ready", models: ["a", "b/c"] });
      const response = await fetch(`${ready.url}/v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ model: "b/c", messages: [{ role: "user", content: "hi" }], max_tokens: 4 }),
      });
      expect(response.status).to.equal(200);
      expect(await response.json()).to.have.property("system_fingerprint", `t4t-${ready.engine}`);
      child.kill("SIGTERM");
      expect(await exited).to.deep.equal([0, null]);
      if (ready.engine === "llama" || engine === "text") expect(await stderr).to.equal("");
    });
  }

  it("ends with a clear line when its port is taken", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { exited, stderr } = start(["--engine", "text", "--port", String((other.address() as AddressInfo).port)]);
    expect((await exited)[0]).to.equal(1);
    expect(await stderr).to.equal("the port is taken: choose another with --port, or 0 for any free one\n");
    other.close();
  });
});

describe("readMainOptions", () => {
  it("has a default for everything", () => {
    expect(readMainOptions([], {})).to.deep.equal({
      host: "127.0.0.1",
      port: 8080,
      engine: "auto",
      models: ["tiny"],
      dataDir: "data/backend",
      tokenDelayMs: 0,
      promptTokenDelayMs: 0,
      slots: undefined,
      apiKey: undefined,
    });
  });

  it("takes the API key from the environment only, where other users of the machine cannot read it", () => {
    expect(readMainOptions([], { T4T_BACKEND_API_KEY: "k" })).to.have.property("apiKey", "k");
    expect(() => readMainOptions(["--api-key", "k"], {})).to.throw(MainOptionsError);
  });

  it("names every fault at once", () => {
    const args = ["--port", "70000", "--engine", "gpu", "--slots", "0", "--token-delay-ms", "fast", "--model", ""];
    const expected = /--engine.*\n.*--model.*\n.*--port.*\n.*--token-delay-ms.*\n.*--slots/;
    expect(() => readMainOptions(args, {})).to.throw(MainOptionsError, expected);
  });

  it("answers --help with nothing to run", () => {
    expect(readMainOptions(["--help"], {})).to.equal(undefined);
  });
});
