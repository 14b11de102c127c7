import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "chai";
import { inheritedEnvironment, startChild } from "../../../scripts/network/child-process.ts";
import { until } from "../../support/until.ts";

const module = new URL("../../../scripts/network/child-process.ts", import.meta.url).href;

describe("a process of the local network", () => {
  let folder: string;

  before(() => {
    folder = mkdtempSync(join(tmpdir(), "t4t-child-"));
  });

  after(() => {
    rmSync(folder, { recursive: true });
  });

  /** A parent that starts one child, which lives until it is ended. */
  async function startFamily() {
    const options = {
      name: "child",
      args: ["-e", "new (require('node:worker_threads').Worker)('setInterval(() => 0, 1000)', { eval: true })"],
      env: {},
      cwd: folder,
      logFile: join(folder, "child.log"),
    };
    const program = `import { startChild } from ${JSON.stringify(module)}; console.log(startChild(${JSON.stringify(options)}).pid)`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    const [pid] = (await once(createInterface(parent.stdout), "line")) as [string];
    return { parent, pid: Number(pid) };
  }

  const isAlive = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };

  it("does not outlive its parent, even one that is killed", async () => {
    const { parent, pid } = await startFamily();
    expect(isAlive(pid)).to.equal(true);
    parent.kill("SIGKILL");
    await until("the child has gone", () => !isAlive(pid));
  });

  it("may fork processes that have no standard input, as a native add-on's probe does", async () => {
    const log = join(folder, "forking.log");
    const child = startChild({
      name: "forking",
      args: [
        "-e",
        "require('node:child_process').fork('-e', ['setTimeout(() => process.exit(7), 300)'], { execArgv: process.execArgv.slice(0, 2), stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }).once('exit', (code, signal) => process.exit(signal === null ? code : 1))",
      ],
      env: inheritedEnvironment(),
      cwd: folder,
      logFile: log,
    });
    expect(await child.exited, child.tail()).to.equal("exit code 7");
  });

  it("hears nothing of a Ctrl-C that its parent does not pass on", async () => {
    const { parent, pid } = await startFamily();
    expect(() => process.kill(-pid, 0), "a terminal signals groups, and it has one of its own").to.not.throw();
    parent.kill("SIGKILL");
    await until("the child has gone", () => !isAlive(pid));
  });
});
