import { expect } from "chai";
import { privateKeyToAccount } from "viem/accounts";
import { StatusFollower, type StatusFollowerOptions } from "../../../gateway/routing/status-follower.ts";
import type { OpenStatusStream, StatusTransport } from "../../../gateway/routing/status-stream.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { type MessageDomain, providerStatusTypedData } from "../../../protocol/messages.ts";
import { formatSse } from "../../../protocol/sse.ts";
import type { ProviderStatus } from "../../../protocol/status.ts";
import { until as settled } from "../../support/until.ts";
import { ManualClock } from "./support/manual-clock.ts";
import { addressOf } from "./support/registry.ts";

const operator = privateKeyToAccount(`0x${"11".repeat(32)}`);
const stranger = privateKeyToAccount(`0x${"22".repeat(32)}`);
const domain: MessageDomain = { chainId: 1, escrow: addressOf(99) };
const provider = { address: addressOf(1), operator: operator.address, endpoint: "https://one.example/" };

/** A connection that a test feeds by hand. */
class Pipe {
  readonly url: string;
  readonly #chunks: Uint8Array[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  readonly #signal: AbortSignal;

  constructor(url: string, signal: AbortSignal) {
    this.url = url;
    this.#signal = signal;
    signal.addEventListener("abort", () => this.#wake?.());
  }

  get aborted(): boolean {
    return this.#signal.aborted;
  }

  send(text: string): void {
    this.#chunks.push(Buffer.from(text));
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (this.#signal.aborted) return;
      if (chunk !== undefined) yield chunk;
      else if (this.#ended) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}

function setup(options: Partial<StatusFollowerOptions> = {}) {
  const clock = new ManualClock();
  const pipes: Pipe[] = [];
  const reports: ProviderStatus[] = [];
  const forgotten: string[] = [];
  const refused: string[] = [];
  const roundTrips: number[] = [];
  let measured: number | undefined;
  const measure = (ms: number | undefined): void => {
    measured = ms;
  };
  const transport: StatusTransport = {
    open: ({ url, signal }): Promise<OpenStatusStream> => {
      const pipe = new Pipe(url, signal);
      pipes.push(pipe);
      return Promise.resolve({ body: pipe.read(), roundTripMs: () => measured });
    },
  };
  const follower = new StatusFollower({
    transport,
    clock,
    random: () => 0.5,
    domain,
    sink: {
      report: (_provider, status) => reports.push(status),
      forgetReport: (address) => forgotten.push(address),
      recordRoundTrip: (_provider, ms) => roundTrips.push(ms),
      forgetRoundTrip: () => roundTrips.splice(0),
    },
    onRefused: (_provider, fault) => refused.push(fault),
    ...options,
  });
  return { clock, pipes, reports, forgotten, refused, roundTrips, measure, follower };
}

async function signedStatus(
  change: Partial<ProviderStatus> & { readonly issuedAt: number },
  signer = operator,
): Promise<string> {
  const status: ProviderStatus = {
    provider: provider.address,
    draining: false,
    maxConcurrentJobs: 2,
    running: 0,
    models: [{ model: "m", generation: "g", running: 0, maxInputTps: 100 }],
    ...change,
  };
  const body = JSON.stringify(status);
  const message = { provider: provider.address, issuedAt: status.issuedAt, bodyHash: bodyHash(body) };
  const signature = await signer.signTypedData(providerStatusTypedData(domain, message));
  return formatSse({ event: "status", data: JSON.stringify({ body, signature }) });
}

const until = (probe: () => boolean): Promise<boolean> => settled("the follower's next step", probe);

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
};

describe("the status follower", () => {
  it("reports what the operator signed, from one connection a provider", async () => {
    const { clock, pipes, reports, follower } = setup();
    follower.follow(provider);
    follower.follow(provider);
    await turns();
    expect(pipes.map(({ url }) => url)).to.deep.equal(["https://one.example/v1/status/events"]);
    pipes[0]!.send(await signedStatus({ issuedAt: clock.now() }));
    await until(() => reports.length === 1);
    expect(reports[0]?.models[0]?.maxInputTps).to.equal(100);
    follower.close();
  });

  it("refuses what another key signed, another provider's status, a replay and a status from another time", async () => {
    const { clock, pipes, reports, refused, follower } = setup();
    follower.follow(provider);
    await turns();
    const pipe = pipes[0]!;
    const now = clock.now();
    const good = await signedStatus({ issuedAt: now });
    const cases: readonly (readonly [string, string | undefined])[] = [
      [await signedStatus({ issuedAt: now }, stranger), "wrong_signer"],
      [await signedStatus({ issuedAt: now, provider: addressOf(2) }), "wrong_provider"],
      [good, undefined],
      [good, "not_newer"],
      [await signedStatus({ issuedAt: now + 3_600_000 }), "clock_skew"],
      [formatSse({ event: "status", data: "{" }), "malformed"],
      [formatSse({ event: "status", data: '{"body":"[]","signature":"0x"}' }), "malformed"],
    ];
    let seen = 0;
    for (const [frame] of cases) {
      pipe.send(frame);
      seen += 1;
      await until(() => reports.length + refused.length === seen);
      await turns();
      clock.advance(250);
    }
    expect(refused).to.deep.equal(cases.map(([, fault]) => fault).filter((fault) => fault !== undefined));
    expect(reports).to.have.length(1);
    follower.close();
  });

  it("takes the newest round trip with every status, as one stream may live longer than the way to its provider stays the same", async () => {
    const { clock, pipes, reports, roundTrips, measure, follower } = setup();
    follower.follow(provider);
    await until(() => pipes.length === 1);
    for (const [index, ms] of [undefined, 30, 80].entries()) {
      measure(ms);
      pipes[0]?.send(await signedStatus({ issuedAt: clock.now() + index }));
      await until(() => reports.length === index + 1);
      clock.advance(250);
    }
    expect(roundTrips).to.deep.equal([30, 80]);
    follower.close();
  });

  it("believes a rotated operator from the next status on", async () => {
    const { clock, pipes, reports, refused, follower } = setup();
    follower.follow(provider);
    follower.follow({ ...provider, operator: stranger.address });
    await turns();
    pipes[0]!.send(await signedStatus({ issuedAt: clock.now() }, stranger));
    await until(() => reports.length === 1);
    expect(refused).to.deep.equal([]);
    follower.close();
  });

  it("checks the newest of many statuses, so that a chatty provider costs one signature an interval", async () => {
    const { clock, pipes, reports, follower } = setup();
    follower.follow(provider);
    await turns();
    const now = clock.now();
    pipes[0]!.send(await signedStatus({ issuedAt: now }));
    await until(() => reports.length === 1);
    for (let index = 1; index <= 20; index += 1) pipes[0]!.send(await signedStatus({ issuedAt: now + index }));
    await turns();
    clock.advance(250);
    await until(() => reports.length === 2);
    expect(reports[1]?.issuedAt).to.equal(now + 20);
    follower.close();
  });

  it("checks no more statuses a second of many providers than of a few, as each costs the processor a signature", async () => {
    const { clock, pipes, reports, follower } = setup({ maxChecksPerSecond: 2 });
    follower.follow(provider);
    follower.follow({ ...provider, address: addressOf(2) });
    await until(() => pipes.length === 2);
    pipes[0]?.send(await signedStatus({ issuedAt: clock.now() }));
    await until(() => reports.length === 1);
    pipes[0]?.send(await signedStatus({ issuedAt: clock.now() + 1 }));
    await turns();
    clock.advance(999);
    expect(reports).to.have.length(1);
    clock.advance(1);
    expect(reports).to.have.length(2);
    follower.close();
  });

  it("ends a connection that floods or sends an endless frame", async () => {
    const { pipes, follower } = setup({ maxBytesPerSecond: 1000 });
    follower.follow(provider);
    await turns();
    pipes[0]!.send(`data: ${"x".repeat(200_000)}`);
    await until(() => pipes[0]!.aborted);
    expect(follower.state).to.deep.equal({ following: 1, connected: 0, waiting: 0 });
    follower.close();
  });

  it("gives up a silent connection and reconnects with a growing, jittered delay", async () => {
    const { clock, pipes, follower } = setup();
    follower.follow(provider);
    await turns();
    clock.advance(30_000);
    await until(() => follower.state.connected === 0);
    expect(pipes[0]!.aborted).to.equal(true);
    expect(clock.pending).to.deep.equal([1500]);
    clock.advance(1500);
    await until(() => pipes.length === 2);
    pipes[1]!.end();
    await until(() => follower.state.connected === 0);
    expect(clock.pending).to.deep.equal([3000]);
    follower.close();
    expect(clock.pending).to.deep.equal([]);
  });

  it("holds a bounded number of connections and lets the waiting have their turn", async () => {
    const { clock, pipes, reports, follower } = setup({ maxConnections: 1, turnMs: 1000 });
    const second = { ...provider, address: addressOf(2), endpoint: "https://two.example" };
    follower.follow(provider);
    follower.follow(second);
    await turns();
    expect(follower.state).to.deep.equal({ following: 2, connected: 1, waiting: 1 });
    pipes[0]!.send(await signedStatus({ issuedAt: clock.now() }));
    await until(() => reports.length === 1);
    clock.advance(1000);
    await until(() => pipes.length === 2);
    expect(pipes[1]!.url).to.equal("https://two.example/v1/status/events");
    expect(follower.state).to.deep.equal({ following: 2, connected: 1, waiting: 1 });
    follower.close();
  });

  it("moves to a new endpoint, and forgets a provider that left", async () => {
    const { clock, pipes, forgotten, roundTrips, measure, follower } = setup();
    measure(80);
    follower.follow(provider);
    await turns();
    pipes[0]!.send(await signedStatus({ issuedAt: clock.now() }));
    await until(() => roundTrips.length > 0);
    follower.sync([provider.address], () => ({ ...provider, endpoint: "https://moved.example" }));
    expect(roundTrips, "an average with the way to the old place would last for many minutes").to.deep.equal([]);
    await until(() => follower.state.connected === 0);
    clock.advance(1500);
    await until(() => pipes.length === 2);
    expect(pipes[1]!.url).to.equal("https://moved.example/v1/status/events");
    follower.sync([provider.address], () => undefined);
    expect(forgotten).to.deep.equal([provider.address]);
    expect(follower.state.following).to.equal(0);
    await until(() => follower.state.connected === 0);
    expect(clock.pending).to.deep.equal([]);
  });

  it("looks soon at a new endpoint, however long the old one had been out of reach", async () => {
    const { clock, pipes, follower } = setup();
    follower.follow(provider);
    for (let failures = 1; failures <= 6; failures += 1) {
      await until(() => pipes.length === failures);
      pipes.at(-1)?.end();
      await until(() => follower.state.connected === 0);
      if (failures < 6) clock.advance(60_000);
    }
    expect(clock.pending, "the delay has grown").to.deep.equal([45_000]);
    follower.follow({ ...provider, endpoint: "https://moved.example" });
    expect(clock.pending, "that of a first reconnect").to.deep.equal([750]);
    clock.advance(750);
    await until(() => pipes.length === 7);
    expect(pipes.at(-1)?.url).to.equal("https://moved.example/v1/status/events");
    // Also when it moves while the old endpoint is being tried.
    follower.follow({ ...provider, endpoint: "https://moved-again.example" });
    await until(() => follower.state.connected === 0);
    expect(clock.pending).to.deep.equal([1500]);
    follower.close();
    expect(clock.pending).to.deep.equal([]);
  });

  it("follows nobody any more once closed, though a last snapshot may still come", async () => {
    const { clock, pipes, follower } = setup();
    follower.follow(provider);
    await turns();
    follower.close();
    await turns();
    follower.sync([provider.address], () => provider);
    await turns();
    expect(pipes).to.have.length(1);
    expect(follower.state).to.deep.equal({ following: 0, connected: 0, waiting: 0 });
    expect(clock.pending).to.deep.equal([]);
  });

  it("survives a transport that refuses", async () => {
    const { clock, follower } = setup({ transport: { open: () => Promise.reject(new Error("refused")) } });
    follower.follow(provider);
    await until(() => clock.pending.length === 1 && follower.state.connected === 0);
    follower.close();
  });
});
