import { expect } from "chai";
import { erc20Abi, type Hex } from "viem";
import type { Random } from "../../protocol/clock.ts";
import { seededRandom } from "../../scripts/backend/seeded-random.ts";
import type { Child } from "../../scripts/network/child-process.ts";
import {
  type LocalNetwork,
  type RunningGateway,
  type RunningProvider,
  startLocalNetwork,
} from "../../scripts/network/local-network.ts";
import { rpcCall } from "../support/chain.ts";
import {
  chainReader,
  contractEvents,
  escrowAccount,
  providerOnChain,
  testModel,
  testOffering,
} from "../support/network.ts";
import { until } from "../support/until.ts";

const seed = Number(process.env.T4T_CRASH_SEED ?? 20_261);
const clients = 4;
const endings = ["JobCompleted", "JobDeclined", "JobCancelled", "JobExpired", "JobSlashed"];

/** How one request ended for its client. */
interface Outcome {
  readonly streamed: boolean;
  /** The connection broke: the process behind it is gone, and the client knows. */
  readonly broken: boolean;
  readonly status: number;
  readonly text: string;
  readonly jobId: string | null;
}

/** Clients that ask for one answer after the other, and count everything that happens to them. */
class Load {
  readonly outcomes: Outcome[] = [];
  #steps = 0;
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** Requests sent, heads and pieces received, ends: moments at which a process can be killed. */
  get steps(): number {
    return this.#steps;
  }

  start(): void {
    this.#running = Promise.all(Array.from({ length: clients }, async (_, index) => await this.#client(index)));
  }

  /** Lets the running requests end. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #client(index: number): Promise<void> {
    for (let turn = 0; !this.#isOver; turn += 1) {
      const streamed = (index + turn) % 3 !== 0;
      const outcome = await this.#ask(streamed, `Client ${index}, turn ${turn}`);
      if (outcome === undefined)
        await until("the gateway listens again", async () => await answers(`${this.#url}/readyz`), 60_000, 50);
      else this.outcomes.push(outcome);
      this.#steps += 1;
    }
  }

  /** undefined: nobody took the request. */
  async #ask(streamed: boolean, content: string): Promise<Outcome | undefined> {
    this.#steps += 1;
    let response: Response;
    try {
      response = await fetch(`${this.#url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: testModel,
          messages: [{ role: "user", content }],
          max_tokens: 15,
          stream: streamed,
        }),
      });
    } catch {
      return undefined;
    }
    this.#steps += 1;
    const head = { streamed, status: response.status, jobId: response.headers.get("x-t4t-job-id") };
    let text = "";
    try {
      const decoder = new TextDecoder();
      for await (const part of response.body ?? []) {
        text += decoder.decode(part as Uint8Array, { stream: true });
        this.#steps += 1;
      }
      return { ...head, text, broken: false };
    } catch {
      return { ...head, text, broken: true };
    }
  }
}

/** Who is killed. `twice`: once more while it starts. */
type Kill = "gateway" | "gateway twice" | "one" | "three" | "three twice" | "gateway and three";

for (const { name, blockTimeMs, kills } of [
  {
    name: "a chain that mines at once",
    blockTimeMs: 0,
    kills: ["gateway", "gateway twice", "one", "three twice", "gateway and three"],
  },
  {
    name: "a chain that mines by the clock",
    blockTimeMs: 250,
    kills: ["gateway", "three"],
  },
] satisfies readonly { readonly name: string; readonly blockTimeMs: number; readonly kills: readonly Kill[] }[]) {
  describe(`gateway and providers that are killed under load, on ${name} (seed ${seed})`, function () {
    this.timeout(180_000);
    let network: LocalNetwork;
    let gateway: RunningGateway;
    let providers: RunningProvider[];
    let load: Load;
    let depositBefore: bigint;

    before(async () => {
      network = await startLocalNetwork({
        providers: [
          { name: "one", maxConcurrentJobs: 1, offerings: [testOffering(1n)] },
          { name: "three", maxConcurrentJobs: 3, offerings: [testOffering(2n)] },
        ],
        providerEnv: { T4T_RECEIPT_GRACE_SECONDS: "3", T4T_UNFETCHED_DECLINE_SECONDS: "3" },
        gateways: [{ name: "gateway", port: 0, env: { T4T_ACK_TIMEOUT_SECONDS: "5" } }],
        backend: { engine: "text", models: ["tiny"], tokenDelayMs: 10 },
        blockTimeMs,
      });
      gateway = network.gateways[0] as RunningGateway;
      providers = [...network.providers];
      depositBefore = (await escrowAccount(network, gateway.participant.account.address)).free;
      load = new Load(gateway.url);
      load.start();
      const random = seededRandom(seed + blockTimeMs);
      for (const kill of shuffled<Kill>(kills, random)) {
        const moment = load.steps + 5 + Math.floor(random() * 60);
        await until(`the moment to kill ${kill}`, () => load.steps >= moment, 60_000);
        await Promise.all([
          kill.startsWith("gateway") ? killGateway(kill === "gateway twice") : undefined,
          kill.startsWith("gateway") && kill !== "gateway and three" ? undefined : killProvider(kill),
        ]);
      }
      await load.stop();
    });

    after(async () => {
      await network.stop();
    });

    async function killGateway(isTwice: boolean): Promise<void> {
      await killHard(gateway.child);
      if (isTwice) await killWhileStarting(gateway.name, `${gateway.url}/healthz`, gateway.restart());
      gateway = await gateway.restart();
    }

    async function killProvider(kill: Kill): Promise<void> {
      const index = kill === "one" ? 0 : 1;
      const provider = providers[index] as RunningProvider;
      await killHard(provider.child);
      if (kill === "three twice") {
        await killWhileStarting(provider.specification.name, `${provider.endpoint}/healthz`, provider.restart());
      }
      providers[index] = await provider.restart();
    }

    async function killHard(child: Child): Promise<void> {
      child.kill("SIGKILL");
      expect(await child.exited).to.equal("signal SIGKILL");
    }

    /** Kills a process as soon as its port is open: journal and port are there, the chain is not yet. */
    async function killWhileStarting(who: string, url: string, starting: Promise<unknown>): Promise<void> {
      const gone = starting.then(
        () => undefined,
        () => undefined,
      );
      await until(`${who} listens`, async () => await answers(url), 60_000);
      const child = network.children.findLast((one) => one.name === who);
      if (child === undefined) throw new Error(`${who} was not started`);
      await killHard(child);
      await gone;
    }

    async function openJobs(): Promise<number> {
      const records = await Promise.all(providers.map(async ({ address }) => await providerOnChain(network, address)));
      return records.reduce((sum, record) => sum + record.openJobs, 0);
    }

    async function advance(seconds: number): Promise<void> {
      await rpcCall(network.rpcUrl, "evm_increaseTime", [seconds]);
      await rpcCall(network.rpcUrl, "evm_mine", []);
    }

    it("serve in between", () => {
      const whole = load.outcomes.filter(({ status, broken }) => status === 200 && !broken);
      expect(whole.length).to.be.greaterThan(kills.length);
    });

    it("never pass a broken answer off as a whole one", () => {
      for (const { streamed, broken, status, text } of load.outcomes) {
        if (broken) continue;
        if (status !== 200) {
          const { error } = JSON.parse(text) as { error: object };
          expect(error, text).to.have.all.keys("message", "type", "param", "code");
        } else if (streamed) {
          const isDone = text.trimEnd().endsWith("data: [DONE]");
          const hasError = text.includes('data: {"error"');
          expect(isDone !== hasError, `either [DONE] or an error: ${text}`).to.equal(true);
        } else {
          expect((JSON.parse(text) as { choices: unknown[] }).choices, text).to.have.length(1);
        }
      }
    });

    it("bring every job to one end, most by themselves and the rest when the escrow's windows have passed", async () => {
      // In the time of a few settlements nothing should be left that needs the windows; what is, is moved there.
      await until("the ordinary ends are there", async () => (await openJobs()) <= 2, 30_000, 200);
      for (const seconds of [32, 62]) {
        await advance(seconds);
        await until("a look of the janitor has passed", async () => (await openJobs()) === 0, 8000, 200).catch(
          () => undefined,
        );
      }
      if ((await openJobs()) > 0) await advance(1100);
      await until("no job is open", async () => (await openJobs()) === 0, 60_000, 200);
      const { escrow } = await contractEvents(network);
      const posted = escrow.filter(({ eventName }) => eventName === "JobPosted").map(({ args }) => jobIdOf(args));
      const ended = escrow.filter(({ eventName }) => endings.includes(eventName)).map(({ args }) => jobIdOf(args));
      expect(new Set(posted).size, "a job was posted twice").to.equal(posted.length);
      expect(ended.toSorted()).to.deep.equal(posted.toSorted());
    });

    it("have a job with an end for every answer that a client got whole", async () => {
      const { escrow } = await contractEvents(network);
      const ends = new Map<string, string>();
      for (const { eventName, args } of escrow) if (endings.includes(eventName)) ends.set(jobIdOf(args), eventName);
      const whole = load.outcomes.filter(
        ({ broken, status, text }) => !broken && status === 200 && !text.includes('data: {"error"'),
      );
      const unpaid = whole.filter(({ jobId }) => ends.get(jobId ?? "") !== "JobCompleted");
      // Only a provider that was killed between its last token and its own note of it goes without.
      for (const { jobId } of unpaid) expect(ends.get(jobId ?? "")).to.be.oneOf(["JobDeclined", "JobCancelled"]);
      expect(unpaid.length).to.be.at.most(kills.length * clients);
    });

    it("lose no money and lock none", async () => {
      const client = gateway.participant.account.address;
      const { escrow, registry } = await contractEvents(network);
      const paidTo = new Map<string, bigint>();
      for (const event of escrow) {
        if (event.eventName !== "JobCompleted" || event.args.provider === undefined) continue;
        const { provider, payment = 0n } = event.args;
        paidTo.set(provider, (paidTo.get(provider) ?? 0n) + payment);
      }
      const money = await escrowAccount(network, client);
      expect(money.locked).to.equal(0n);
      expect(money.free).to.equal(depositBefore - [...paidTo.values()].reduce((sum, one) => sum + one, 0n));
      let owed = money.free;
      for (const { address } of providers) {
        const { free, locked } = await escrowAccount(network, address);
        expect(locked).to.equal(0n);
        expect(free, "earned is what the completed jobs paid").to.equal(paidTo.get(address) ?? 0n);
        owed += free;
        const { stake } = await providerOnChain(network, address);
        expect(stake, "nobody's stake is touched for a crash").to.equal(1_000_000_000n);
      }
      const held = await chainReader(network).readContract({
        address: network.deployment.token,
        abi: erc20Abi,
        functionName: "balanceOf",
        args: [network.deployment.escrow],
      });
      expect(held, "the escrow holds exactly what it owes").to.equal(owed);
      expect(registry.some(({ eventName }) => eventName === "StakeSlashed")).to.equal(false);
    });

    it("know it themselves: nothing is open in the journal of the gateway", async () => {
      await until(
        "the gateway's journal agrees",
        async () => /^t4t_gateway_open_jobs 0$/m.test(await (await fetch(`${gateway.url}/metrics`)).text()),
        30_000,
        100,
      );
    });
  });
}

/** Whether a URL answers with a 200. */
async function answers(url: string): Promise<boolean> {
  return await fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const order = [...items];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other] as T, order[last] as T];
  }
  return order;
}

function jobIdOf(args: object): Hex {
  return "jobId" in args ? (args.jobId as Hex) : "0x";
}
