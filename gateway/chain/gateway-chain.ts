import { randomBytes } from "node:crypto";
import type { LocalAccount, PublicClient } from "viem";
import { backoffDelay } from "../../chain/backoff.ts";
import { bindJournal } from "../../chain/journal-binding.ts";
import { createRegistryIndex } from "../../chain/registry-index/registry-index.ts";
import type {
  IndexHealth,
  JobEvent,
  Published,
  RegistryDelta,
  RegistryIndex,
} from "../../chain/registry-index/types.ts";
import { type ChainConnection, openChain } from "../../chain/rpc.ts";
import type { ChainSettings } from "../../chain/settings.ts";
import { openTransactionQueue, type RunningTransactionQueue } from "../../chain/transactions/queue.ts";
import type { Clock, Random } from "../../protocol/clock.ts";
import { accountFromKey } from "../../protocol/signing.ts";
import type { Journal } from "../../store/journal.ts";
import { ChainTime } from "../jobs/chain-time.ts";
import { EscrowCalls, type EscrowTerms } from "../jobs/escrow-calls.ts";
import { Treasury } from "../jobs/treasury.ts";
import { deriveRoutingState, type RoutingState } from "../routing/state.ts";
import { verifyChain, WrongChainError } from "../../chain/verify.ts";

/** Options of `GatewayChain.open`. */
export interface GatewayChainOptions {
  readonly settings: ChainSettings;
  readonly escrowTarget: bigint | undefined;
  /** Of outcomes in reputation, by chain time. */
  readonly reputationHalfLifeSeconds: number;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly random: Random;
  readonly onPublished: (published: Published<RoutingState>, delta: RegistryDelta) => void;
  readonly onJobEvent: (event: JobEvent) => void;
  /** Everything was read for the first time. */
  readonly onReady: () => void;
  /** Something failed and is tried again; `where` is a bounded word. */
  readonly onFault: (where: string, error: unknown) => void;
  /** The chain came up and is not the configured one. */
  readonly onWrongChain: (error: WrongChainError) => void;
}

/** What needs the chain to be known. */
export interface ChainServices {
  readonly terms: EscrowTerms;
  readonly calls: EscrowPort;
  readonly treasury: Pick<Treasury, "topUp">;
}

/** What the rest of the gateway asks of the escrow. */
export type EscrowPort = Pick<
  EscrowCalls,
  | "jobIdOf"
  | "post"
  | "outcomeOfPost"
  | "jobOf"
  | "completionOf"
  | "account"
  | "requestCancel"
  | "finalizeCancel"
  | "expire"
  | "slash"
  | "gasPrice"
>;

/** What the rest of the gateway needs of the chain; tests put another in its place. */
export type ChainPort = Pick<
  GatewayChain,
  | "account"
  | "time"
  | "services"
  | "published"
  | "indexHealth"
  | "notReady"
  | "pendingTransactions"
  | "balance"
  | "poke"
  | "nextNonce"
  | "hasGas"
  | "close"
>;

const bringUpBackoff = { baseMs: 250, maxMs: 10_000 };
/** How long a client is kept waiting for whether the wallet can pay. */
const gasPatienceMs = 2000;
/** How often the escrow account is read for metrics, ms. */
const accountMs = 30_000;

/** All of a gateway that talks to its chain: connection, index, transactions. A chain that is down at start is tried until it is there. */
export class GatewayChain {
  readonly account: LocalAccount;
  readonly time: ChainTime;
  readonly #options: GatewayChainOptions;
  readonly #connection: ChainConnection;
  readonly #index: RegistryIndex<RoutingState>;
  /** Opened once the chain is known to be the journal's: on any other it would send what the journal holds anew. */
  #queue: RunningTransactionQueue | undefined;
  readonly #noncePrefix: bigint;
  #lastNonce = 0n;
  #services: ChainServices | undefined;
  #lastError: string | undefined;
  #balance: { readonly free: bigint; readonly locked: bigint } | undefined;
  #attempts = 0;
  #closed = false;
  #cancelTimer: () => void = () => undefined;

  private constructor(options: GatewayChainOptions, connection: ChainConnection, account: LocalAccount) {
    this.#options = options;
    this.#connection = connection;
    this.account = account;
    this.time = new ChainTime(options.clock);
    // 160 random bits of this process's own: no counter in a journal is needed, and none can be lost with one.
    this.#noncePrefix = BigInt(`0x${randomBytes(20).toString("hex")}`) << 96n;
    const { settings, clock, random } = options;
    this.#index = createRegistryIndex({
      client: connection.client,
      contracts: settings.target,
      deployedAtBlock: settings.target.deployedAtBlock,
      derive: deriveRoutingState,
      reputationHalfLifeSeconds: options.reputationHalfLifeSeconds,
      ownClients: [account.address],
      clock,
      random,
      pollMs: settings.pollMs,
      ...(settings.wsUrl === undefined ? {} : { wsUrl: settings.wsUrl }),
      onError: (error) => options.onFault("index", error),
    });
    this.#index.onHead((head) => {
      this.time.observe(head.timestamp);
      this.#queue?.poke();
    });
    this.#index.onJobEvent(options.onJobEvent);
    this.#index.subscribe((published, delta) => options.onPublished(published, delta));
  }

  /**
   * Makes a first attempt at the chain, and opens the transaction queue on it.
   *
   * @throws WrongChainError when the chain answers and is not the configured one. A chain that does not answer is no error.
   */
  static async open(options: GatewayChainOptions): Promise<GatewayChain> {
    const { settings, clock, random } = options;
    const connection = openChain({ url: settings.rpcUrl, clock, random, timeoutMs: settings.rpcTimeoutMs });
    const chain = new GatewayChain(options, connection, accountFromKey(settings.privateKey));
    try {
      await chain.#bringUp(true);
    } catch (error) {
      await chain.close();
      throw error;
    }
    return chain;
  }

  get client(): PublicClient {
    return this.#connection.client;
  }

  /** undefined until the chain was reached and found to be the right one. */
  get services(): ChainServices | undefined {
    return this.#services;
  }

  /** The newest snapshot; undefined while there is none, or while the chain has been out of reach for too long to go by it. */
  published(): Published<RoutingState> | undefined {
    return this.#services !== undefined && this.#index.health().ready ? this.#index.current() : undefined;
  }

  get indexHealth(): IndexHealth {
    return this.#index.health();
  }

  /** Why no request can be served; undefined when all is well. */
  notReady(): string | undefined {
    if (this.#services === undefined) return `the chain cannot be used: ${this.#lastError ?? "not asked yet"}`;
    const health = this.#index.health();
    return health.ready ? undefined : `the registry index is not current: ${health.lastError ?? "still reading"}`;
  }

  get pendingTransactions(): number {
    return this.#queue?.pending ?? 0;
  }

  /** Money of the wallet in the escrow as last read. */
  get balance(): { readonly free: bigint; readonly locked: bigint } | undefined {
    return this.#balance;
  }

  /** Looks for a new block at once. */
  poke(): void {
    this.#index.poke();
  }

  /** A client nonce that no process of this wallet ever used. */
  nextNonce(): bigint {
    this.#lastNonce += 1n;
    return this.#noncePrefix + this.#lastNonce;
  }

  /** Whether the wallet holds any ETH; true when that cannot be told. */
  async hasGas(): Promise<boolean> {
    const late = Promise.withResolvers<boolean>();
    const cancel = this.#options.clock.after(gasPatienceMs, () => late.resolve(true));
    try {
      return await Promise.race([this.#readGas(), late.promise]);
    } finally {
      cancel();
    }
  }

  async #readGas(): Promise<boolean> {
    try {
      const { client } = this.#connection;
      const [balance, price] = await Promise.all([
        client.getBalance({ address: this.account.address }),
        client.getGasPrice(),
      ]);
      return balance >= price * leastGas;
    } catch {
      return true;
    }
  }

  /** Stops; transactions under way stay in the journal. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTimer();
    // A node that hangs must not hold up the end: cut off, what is under way ends at once.
    const stopped = Promise.all([this.#index.stop(), this.#queue?.close()]);
    await this.#connection.close();
    await stopped;
  }

  async #bringUp(isFirst: boolean): Promise<void> {
    const { settings, clock, random, escrowTarget, journal } = this.#options;
    const { client } = this.#connection;
    try {
      await verifyChain(client, settings.target);
      const { escrow, registry, chainId } = settings.target;
      const { dataDir } = settings;
      await bindJournal({ journal, client, chainId, escrow, wallet: this.account.address, dataDir });
      const queue = (this.#queue ??= await this.#openQueue());
      const calls = new EscrowCalls({ queue, client, escrow, registry, chainId });
      const terms = await calls.readTerms();
      if (this.#closed) {
        await queue.close();
        return;
      }
      const treasury = new Treasury({
        queue,
        calls,
        client,
        journal,
        escrow,
        token: terms.token.address,
        target: escrowTarget,
        onTopUp: () => this.#readAccountSoon(),
      });
      this.#services = { terms, calls, treasury };
      this.#lastError = undefined;
      this.#index.start();
      this.#readAccountSoon();
      this.#options.onReady();
    } catch (error) {
      if (error instanceof WrongChainError) {
        if (isFirst) throw error;
        this.#options.onWrongChain(error);
      }
      if (this.#closed) return;
      this.#lastError = error instanceof Error && "shortMessage" in error ? String(error.shortMessage) : String(error);
      this.#options.onFault("chain_start", error);
      const delay = backoffDelay(this.#attempts, bringUpBackoff, random);
      this.#attempts += 1;
      this.#cancelTimer = clock.after(delay, () => void this.#bringUp(false));
    }
  }

  async #openQueue(): Promise<RunningTransactionQueue> {
    const { settings, clock, random, journal, onFault } = this.#options;
    return await openTransactionQueue({
      client: this.#connection.client,
      account: this.account,
      chainId: settings.target.chainId,
      journal,
      clock,
      random,
      confirmations: settings.confirmations,
      pollMs: settings.pollMs,
      stuckAfterMs: settings.feeBumpMs,
      ...(settings.maxFeePerGas === undefined ? {} : { feeCap: settings.maxFeePerGas }),
      onEvent: (event) => {
        if (event.type === "bumped") return;
        const nonce = "nonce" in event ? event.nonce : undefined;
        const message = "message" in event ? event.message : undefined;
        onFault(`transaction_${event.type}`, new Error(JSON.stringify({ kind: event.kind, nonce, message })));
      },
    });
  }

  #readAccountSoon(): void {
    void this.#readAccount();
  }

  async #readAccount(): Promise<void> {
    if (this.#closed || this.#services === undefined) return;
    this.#cancelTimer();
    try {
      this.#balance = await this.#services.calls.account();
    } catch (error) {
      this.#options.onFault("account", error);
    }
    this.#scheduleAccount();
  }

  #scheduleAccount(): void {
    this.#cancelTimer();
    if (!this.#closed) this.#cancelTimer = this.#options.clock.after(accountMs, () => void this.#readAccount());
  }
}

/** Gas of the cheapest transaction there is: a wallet that cannot pay even that is empty. */
const leastGas = 21_000n;
