/** One offering of a provider of the local network. Prices are wei per million tokens. */
export interface OfferingSpecification {
  readonly model: string;
  readonly inputPrice: bigint;
  readonly outputPrice: bigint;
  readonly contextLength: number;
  /** Name of the model at the backend where it differs. */
  readonly backendModel?: string;
}

/** One provider node of the local network. */
export interface ProviderSpecification {
  /** Also its key's role, so each name is one provider. */
  readonly name: string;
  /** 0 = no cap; undefined = the node's own default. */
  readonly maxConcurrentJobs: number | undefined;
  readonly offerings: readonly OfferingSpecification[];
  /** 0 picks a free port. */
  readonly port?: number;
  /** Input tokens per second that the node reports until it has measured its own. */
  readonly initialInputTps?: number;
  /** Backend in place of the network's. */
  readonly backendUrl?: string;
  /** More `T4T_` variables of this node. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Smallest units of the test token in one token (6 decimals). */
export const oneToken = 1_000_000n;

/** Model that all three providers of the demonstration serve. */
export const sharedModel = "t4t/tiny";
/** Model that only the provider with one slot serves, so that a second client must wait in line. */
export const singleModel = "t4t/tiny-single";

const contextLength = 32_768;

function offering(
  model: string,
  inputPrice: bigint,
  outputPrice: bigint,
  backendModel: string | undefined,
): OfferingSpecification {
  const plain = { model, inputPrice, outputPrice, contextLength };
  return backendModel === undefined ? plain : { ...plain, backendModel };
}

/**
 * The three providers of `npm start`: different caps, different prices, one of them alone with a second model.
 * @param backendModel Name of the model at the backend; undefined where the backend goes by the names that clients use.
 */
export function demonstrationProviders(backendModel: string | undefined): readonly ProviderSpecification[] {
  return [
    {
      name: "provider-1",
      maxConcurrentJobs: 1,
      offerings: [
        offering(sharedModel, 2n * oneToken, 6n * oneToken, backendModel),
        offering(singleModel, 2n * oneToken, 6n * oneToken, backendModel),
      ],
    },
    {
      name: "provider-2",
      maxConcurrentJobs: 2,
      offerings: [offering(sharedModel, 3n * oneToken, 9n * oneToken, backendModel)],
    },
    {
      name: "provider-3",
      maxConcurrentJobs: 4,
      offerings: [offering(sharedModel, 4n * oneToken, 12n * oneToken, backendModel)],
    },
  ];
}
