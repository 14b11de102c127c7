// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {OfferingTerms} from "../types/OfferingTerms.sol";
import {IRefusalErrors} from "./IRefusalErrors.sol";

/// @title IProviderRegistry
/// @notice Who serves which model, at what price, with how many slots, how many of them are taken, and what stake stands behind it.
/// @dev A provider is identified by its owner address. All amounts are in the smallest unit of the one ERC-20 token that the
/// registry and its market share; all prices are such units per one million tokens of text; all times are Unix seconds.
///
/// Callers: the *owner* of a provider, its *operator* (the owner counts as one everywhere an operator may call), a *market*
/// (a contract that the registry's own owner has allowed; the job escrow is one), the *contract owner*, anyone. A provider's
/// function reverts {NotProvider} for others, a market's {NotMarket}, the contract owner's OwnableUnauthorizedAccount.
///
/// Liveness: `lastSeen` becomes the block's time with each of {ProviderRegistered}, {ProviderReactivated} and {Heartbeat} and,
/// while the provider is active, with {OperatorChanged}, {EndpointChanged}, {PayoutChanged}, {MaxConcurrentJobsUpdated},
/// {OfferingSet}, {OfferingRemoved}, {Staked}, {UnbondingStarted} and {StakeWithdrawn}; never otherwise. So events tell it exactly.
///
/// Trust: markets are trusted with the slots and the stake of every provider, also those that another market took: there is one
/// counter a provider, because a counter a market would cost each job 5,000 gas more. The contract owner adds markets, each after a
/// public notice of three unbonding periods, so that whoever does not trust it can take its stake out first, and stops and allows again
/// those that it added; it can do nothing else.
/// Tokens with fees on transfer are counted as received; balances that change by themselves (rebasing) are not supported: what a
/// negative rebase takes is missing from the last withdrawals.
interface IProviderRegistry is IRefusalErrors {
    // ---------------------------------------------------------------------------------------------------------- types

    /// @notice Why a provider cannot take a job now, in the order in which it is checked. `None` means that it can.
    enum Refusal {
        None,
        UnknownProvider,
        Inactive,
        Stale,
        NoOffering,
        PriceAboveLimit,
        AtCapacity,
        InsufficientStake
    }

    /// @notice A provider as returned by views.
    /// @param owner Cold address that registered: its identity, holder of the stake.
    /// @param operator Hot key: heartbeat, capacity, offerings, signatures.
    /// @param payout Where stake withdrawals and escrow withdrawals of this provider are sent.
    /// @param active False while deactivated.
    /// @param lastSeen Time of the last transaction of owner or operator; of those in a market, the last that was an eighth of
    /// `timeToLive` after the one before.
    /// @param generation Grows by one at registration and at every return; statistics of an older generation are void.
    /// @param maxConcurrentJobs Cap on open jobs; 0 = unset, no cap.
    /// @param openJobs Slots taken now.
    /// @param exposure Sum of the collateral that open jobs hold against the stake.
    /// @param stake Staked amount that is not unbonding.
    /// @param unbonding Amount waiting for `withdrawStake`.
    /// @param unbondingAt Time from which `unbonding` can be withdrawn; 0 when none is.
    /// @param offeringCount Number of live offerings.
    /// @param endpoint Base URL of the provider's OpenAI-compatible node.
    struct ProviderView {
        address owner;
        address operator;
        address payout;
        bool active;
        uint40 lastSeen;
        uint32 generation;
        uint32 maxConcurrentJobs;
        uint32 openJobs;
        uint128 exposure;
        uint128 stake;
        uint128 unbonding;
        uint40 unbondingAt;
        uint32 offeringCount;
        string endpoint;
    }

    /// @notice An immutable record of one offering at one price. A changed price is a new record with a new id.
    /// @param offeringId From 1 up, below 2^40; 0 when there is no such record.
    /// @param modelKey keccak256 of the UTF-8 bytes of `modelId`.
    /// @param contextLength Tokens of text that prompt and answer can have together.
    /// @param live Whether it is what the provider asks now.
    struct OfferingView {
        uint48 offeringId;
        address provider;
        bytes32 modelKey;
        uint96 inputPrice;
        uint96 outputPrice;
        uint32 contextLength;
        bool live;
        string modelId;
    }

    // --------------------------------------------------------------------------------------------------------- events

    /// @notice A provider is there. `maxConcurrentJobs` is 0, `generation` is 1.
    event ProviderRegistered(
        address indexed provider,
        address indexed operator,
        address payout,
        uint32 generation,
        uint32 maxConcurrentJobs,
        string endpoint
    );
    /// @notice The provider takes no new jobs: by its owner, or because a slash took its stake below the minimum.
    event ProviderDeactivated(address indexed provider);
    /// @notice The provider is back; what was measured of it before is void.
    event ProviderReactivated(address indexed provider, uint32 generation);
    /// @notice `operator` acts for the provider and `previousOperator` no longer does (unless it is the owner).
    event OperatorChanged(address indexed provider, address indexed previousOperator, address indexed operator);
    /// @notice The provider's node is to be found elsewhere.
    event EndpointChanged(address indexed provider, string endpoint);
    /// @notice Stake and earnings go to another address.
    event PayoutChanged(address indexed provider, address payout);
    /// @notice `lastSeen` is now: the provider said so itself, or acted in a market.
    event Heartbeat(address indexed provider);

    /// @notice The provider published another cap.
    event MaxConcurrentJobsUpdated(
        address indexed provider, uint32 previousMax, uint32 maxConcurrentJobs, uint32 openJobs
    );
    /// @notice Slots were taken or freed. Carries the state after the change, so that an index needs no read call.
    event SlotsChanged(address indexed provider, uint32 openJobs, uint32 maxConcurrentJobs);

    /// @notice The provider offers a model, or offers it at another price or context length.
    event OfferingSet(
        address indexed provider,
        bytes32 indexed modelKey,
        uint48 offeringId,
        uint96 inputPrice,
        uint96 outputPrice,
        uint32 contextLength,
        string modelId
    );
    /// @notice The provider no longer offers a model.
    event OfferingRemoved(address indexed provider, bytes32 indexed modelKey, uint48 offeringId);

    /// @notice `amount` came in; `stake` is what is staked now, without what is unbonding.
    event Staked(address indexed provider, uint256 amount, uint256 stake);
    /// @notice `amount` leaves the stake and can be withdrawn from `unbondingAt` on.
    event UnbondingStarted(address indexed provider, uint256 amount, uint256 stake, uint40 unbondingAt);
    /// @notice Unbonded stake was paid out.
    event StakeWithdrawn(address indexed provider, address indexed to, uint256 amount);
    /// @notice `amount` of the stake, unbonding stake included, was burnt; `stake` is what is staked now.
    event StakeSlashed(address indexed provider, uint256 amount, uint256 stake);
    /// @notice Burnt stake left the contract.
    event BurntStakeSwept(uint256 amount);

    /// @notice The contract owner intends to allow a market, and can from `from` until before `until`. Providers that do not trust it
    /// leave now.
    event MarketProposed(address indexed market, uint40 from, uint40 until);
    /// @notice The market will not be allowed unless it is proposed again.
    event MarketProposalWithdrawn(address indexed market);
    /// @notice The contract owner allowed a market to take slots, or forbade it.
    event MarketSet(address indexed market, bool allowed);
    /// @notice A market suspended itself, or resumed.
    event MarketSuspended(address indexed market, bool suspended);

    // --------------------------------------------------------------------------------------------------------- errors

    /// @notice One address is one provider.
    error ProviderAlreadyRegistered(address provider);
    /// @notice Only an inactive provider can come back.
    error ProviderActive(address provider);
    /// @notice The caller is not owner, or neither owner nor operator, of any provider.
    error NotProvider(address caller);
    /// @notice The address already acts for `provider`.
    error OperatorTaken(address operator, address provider);
    /// @notice The zero address.
    error InvalidOperator(address operator);
    /// @notice The zero address, or one that could never pass tokens on: see {isDeadEnd}.
    error InvalidPayout(address payout);
    /// @notice Empty, or longer than allowed, in bytes.
    error InvalidEndpoint(uint256 length, uint256 maxLength);
    /// @notice Empty, or longer than allowed, in bytes.
    error InvalidModelId(uint256 length, uint256 maxLength);
    /// @notice Both prices are zero.
    error InvalidPrice(uint96 inputPrice, uint96 outputPrice);
    /// @notice Zero.
    error InvalidContextLength(uint32 contextLength);
    /// @notice The provider already has `max` live offerings.
    error TooManyOfferings(uint256 max);
    /// @notice Nobody can register before a first market was allowed.
    error NoMarket();
    /// @notice The market can be allowed from `from` until before `until`; both 0 when it is not proposed.
    error MarketNotDue(address market, uint40 from, uint40 until);
    /// @notice The market was allowed before, so it needs no proposal.
    error MarketKnown(address market);
    /// @notice `max` markets have been allowed already.
    error TooManyMarkets(uint256 max);
    /// @notice Zero where something is needed, tokens of which nothing arrived, or a stake far above the supply of any sane token.
    error InvalidAmount(uint256 amount);
    /// @notice There is an unbonding, and it ends at `unbondingAt`.
    error UnbondingPending(uint40 unbondingAt);
    /// @notice There is nothing to withdraw.
    error NothingUnbonding(address provider);
    /// @notice More than can leave the stake now.
    error StakeLocked(uint256 available, uint256 requested);
    /// @notice More items asked for than one page can have.
    error PageTooLarge(uint256 limit, uint256 max);
    /// @notice A constructor parameter, or the market, named in ASCII, is out of range.
    error InvalidParameter(bytes32 name);

    // -------------------------------------------------------------------------------------------- provider's functions

    /// @notice Registers the caller as a provider. Its cap is 0 (unset) until `setMaxConcurrentJobs`.
    /// @dev Anyone who is not yet a provider. Pulls `stakeAmount` tokens from the caller (approve them to the registry).
    /// Emits {ProviderRegistered}, and {Staked} when `stakeAmount` > 0. A caller that is another provider's operator resigns first, as
    /// by {resignOperator}, in the same call: whoever names it again and again cannot keep it from registering.
    ///
    /// Requires: caller not registered ({ProviderAlreadyRegistered}); a market that was ever allowed ({NoMarket}), so that nobody can
    /// register ahead of the first one and put it under notice; `operator` not zero ({InvalidOperator}), the caller itself or an
    /// address that acts for no provider ({OperatorTaken}); `payout` neither zero nor a dead end ({InvalidPayout}, {isDeadEnd});
    /// 1..MAX_ENDPOINT_BYTES bytes of `endpoint` ({InvalidEndpoint}); stake received >= `minStake` ({InsufficientStake}), and, when
    /// `stakeAmount` is not 0, some of it and at most 2^127 - 1 ({InvalidAmount}).
    function register(address operator, address payout, string calldata endpoint, uint256 stakeAmount) external;

    /// @notice Replaces the operator key, at once.
    /// @dev Owner only. Emits {OperatorChanged}. Requires `operator` as {register} does. What the former operator has signed
    /// still binds the provider for jobs posted while it was operator: see {wasProviderAccount}.
    function setOperator(address operator) external;

    /// @notice The calling operator gives its office back; the owner becomes its own operator.
    /// @dev The operator only. Emits {OperatorChanged}. So nobody can hold an address hostage by naming it as operator without
    /// its consent.
    function resignOperator() external;

    /// @notice Replaces the endpoint.
    /// @dev Owner or operator. Emits {EndpointChanged}. Requires 1..MAX_ENDPOINT_BYTES bytes ({InvalidEndpoint}).
    function setEndpoint(string calldata endpoint) external;

    /// @notice Replaces the address to which stake and earnings are sent.
    /// @dev Owner only. Emits {PayoutChanged}. Requires neither zero nor a dead end ({InvalidPayout}, {isDeadEnd}).
    function setPayout(address payout) external;

    /// @notice Stops new jobs; open jobs go on.
    /// @dev Owner only. Emits {ProviderDeactivated}. Requires to be active ({ProviderInactive}).
    function deactivate() external;

    /// @notice Comes back after a deactivation, with the next generation.
    /// @dev Owner only. Emits {ProviderReactivated}. Requires to be inactive ({ProviderActive}) and a stake, without what is
    /// unbonding, >= `minStake` ({InsufficientStake}).
    function reactivate() external;

    /// @notice Publishes the cap on open jobs; 0 removes it.
    /// @dev Owner or operator. Emits {MaxConcurrentJobsUpdated}, also when nothing changes. A cap below `openJobs` stops new jobs
    /// and cancels none.
    function setMaxConcurrentJobs(uint32 maxConcurrentJobs) external;

    /// @notice Sets or changes the offering of one model. O(1).
    /// @dev Owner or operator. Emits {OfferingSet} with a new `offeringId`; jobs already open keep the price of their own record.
    ///
    /// Requires: 1..MAX_MODEL_ID_BYTES bytes of `modelId` ({InvalidModelId}); not both prices zero ({InvalidPrice});
    /// `contextLength` > 0 ({InvalidContextLength}); at most MAX_LIVE_OFFERINGS live ({TooManyOfferings}).
    /// @param inputPrice Amount per million tokens of prompt.
    /// @param outputPrice Amount per million tokens of answer.
    /// @return offeringId Id of the new record.
    function setOffering(string calldata modelId, uint96 inputPrice, uint96 outputPrice, uint32 contextLength)
        external
        returns (uint48 offeringId);

    /// @notice Removes the offering of one model. O(1). Jobs already open go on.
    /// @dev Owner or operator. Emits {OfferingRemoved}. Requires that there is one ({OfferingNotFound}).
    function removeOffering(string calldata modelId) external;

    /// @notice Shows that the provider lives. Needed only when nothing else was sent for a while.
    /// @dev Owner or operator. Emits {Heartbeat}. Requires to be active ({ProviderInactive}).
    function heartbeat() external;

    /// @notice Adds stake.
    /// @dev Owner only. Pulls `amount` tokens from the caller and counts what arrived. Emits {Staked}. Requires that something
    /// arrived, and that the stake does not pass 2^127 - 1 ({InvalidAmount}).
    function addStake(uint256 amount) external;

    /// @notice Moves stake into unbonding, for `unbondingPeriod`.
    /// @dev Owner only; one unbonding at a time ({UnbondingPending}). Emits {UnbondingStarted}. Requires `amount` > 0
    /// ({InvalidAmount}), and that what stays is >= `minStake` while active and >= 0 else ({StakeLocked}): deactivate to take all.
    /// No open job holds it up: unbonding stake still answers for slashes, and the period is longer than any job.
    function startUnbonding(uint256 amount) external;

    /// @notice Pays the unbonded stake to the payout address, whatever any client does.
    /// @dev Owner only, from `unbondingAt` on ({UnbondingPending}). Emits {StakeWithdrawn}. Requires that there is something
    /// ({NothingUnbonding}) and that the payout address has not become a dead end since ({InvalidPayout}). When that is so, or the
    /// token refuses the address, set another.
    function withdrawStake() external;

    // ------------------------------------------------------------------------------------------------ market's functions
    //
    // The dispatcher tries selectors in ascending order, at 22 gas each. Names and order of the parameters of the two functions
    // that every job runs through give them the lowest selectors.

    /// @notice Takes `count` slots of a provider.
    /// @dev Allowed markets only ({NotMarket}), not suspended ({EnforcedPause}). Emits {SlotsChanged}. Holds
    /// `collateralFor(payment)` of the stake.
    ///
    /// Requires `count` > 0 ({InvalidAmount}). Reverts, in this order: {ProviderNotRegistered}; {ProviderInactive};
    /// {ProviderStale} when more than `timeToLive` has passed since `lastSeen`; {OfferingNotFound}; {PriceAboveLimit} when either
    /// price is above its limit; {ProviderAtCapacity} when the cap is not 0 and `openJobs + count` would pass it;
    /// {InsufficientStake} when the stake less what open jobs hold does not cover the collateral.
    /// @param payment Largest payment of what the slots are for, all together.
    /// @return offeringId Record whose price the job keeps.
    function acquireSlots(
        address provider,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint96 payment,
        uint32 count,
        bytes32 modelKey
    ) external returns (uint48 offeringId);

    /// @notice Takes `count` slots of the first candidate that can give them; does not revert for a candidate that cannot.
    /// @dev As {acquireSlots}. Emits {SlotsChanged} for the chosen one only. The market bounds the number of candidates.
    /// @return index Position of the chosen candidate; `candidates.length` when none could.
    /// @return offeringId Record whose price the job keeps; 0 when none could.
    function acquireSlotsAny(
        address[] calldata candidates,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external returns (uint256 index, uint48 offeringId);

    /// @notice Frees slots, and the collateral that they held.
    /// @dev Any address that ever was a market ({NotMarket}), forbidden and suspended ones too. Emits {SlotsChanged}, and
    /// {Heartbeat} when it refreshes `lastSeen`. Requires 0 < `count` <= `openJobs` ({SlotUnderflow}): the counter never saturates.
    /// @param collateral Sum of {collateralFor} of what these slots were taken for. Of more than is held the rest is without effect, at
    /// the latest when the stake changes.
    /// @param seen The provider itself acted: as {touch}.
    function releaseSlots(address provider, uint32 count, uint128 collateral, bool seen) external;

    /// @notice Frees one slot of the provider of a record, if `account` acts for that provider; else changes nothing.
    /// @dev As {releaseSlots} with `seen`: authorisation, prices and release in one call, for the end of most jobs.
    /// @param account Who claims to act for the provider.
    /// @param collateral At most uint128; higher bits are cut off.
    /// @return terms Record of the offering; 0 when `account` does not act for its provider.
    /// @return provider The provider; zero when `account` does not act for it.
    function settleSlotFor(address account, uint256 offeringId, uint256 collateral)
        external
        returns (OfferingTerms terms, address provider);

    /// @notice Frees slots and burns their collateral, at most the stake, unbonding stake included. Nobody gains it.
    /// @dev Any address that ever was a market ({NotMarket}), which answers for having the provider's own signed
    /// acknowledgement. Emits {SlotsChanged}, {StakeSlashed}, and {ProviderDeactivated} when the stake falls below `minStake`.
    /// Requires as {releaseSlots}. Moves no token, so no token can block it: see {sweepBurntStake}.
    /// @return burnt Amount taken from the stake; at most `collateral`.
    function releaseSlotsAndSlash(address provider, uint32 count, uint128 collateral) external returns (uint128 burnt);

    /// @notice Says that owner or operator of a provider acted in the market.
    /// @dev Any address that ever was a market ({NotMarket}). Refreshes `lastSeen` and emits {Heartbeat} when it is at least an
    /// eighth of `timeToLive` old and the provider is active; does nothing else, so that a busy provider does not pay for it
    /// with every job.
    function touch(address provider) external;

    /// @notice The calling market stops, or resumes, taking slots; while suspended it gets {EnforcedPause}.
    /// @dev Any address that ever was a market ({NotMarket}), for itself. Emits {MarketSuspended}.
    function setMarketSuspended(bool suspended) external;

    // ---------------------------------------------------------------------------------------------------------- anyone's

    /// @notice Sends slashed stake out of reach, to BURN_ADDRESS.
    /// @dev Anyone. Emits {BurntStakeSwept}. Requires that there is some ({InvalidAmount}). A token that refuses the transfer
    /// keeps it here, where it is out of reach as well.
    function sweepBurntStake() external;

    // ------------------------------------------------------------------------------------------------------------ owner's

    /// @notice Gives notice of a new market: {setMarket} can allow it from three unbonding periods from now on, for one more.
    /// @dev Contract owner only. Emits {MarketProposed}. Requires a contract at `market` ({InvalidParameter}), so that it can be judged
    /// while it waits, that was never allowed ({MarketKnown}). Proposed again, the time starts anew. Who owns the contract next finds
    /// the proposal as it is, and may withdraw it.
    ///
    /// Every market is trusted with all slots and stakes. Whoever notices within one unbonding period gets all of its stake out in
    /// time: an unbonding that is under way by then ends within the second, and one of all the rest within the third.
    function proposeMarket(address market) external;

    /// @notice Allows a market to take new slots, or forbids it, at once. A forbidden market can still free slots.
    /// @dev Contract owner only. Emits {MarketSet}, and {MarketProposalWithdrawn} when one is forbidden that was proposed. Requires, to
    /// allow a market for the first time: a contract there ({InvalidParameter}); its time to have come ({MarketNotDue}), unless no
    /// provider has ever registered; and fewer than MAX_MARKETS that ever were allowed ({TooManyMarkets}). To forbid requires nothing,
    /// and does nothing to an address that is no market.
    ///
    /// A market that was allowed before needs no new notice: it kept its power over stakes while it was forbidden, to end its jobs,
    /// so a wait would protect nobody, and would make an outage of weeks of one wrong call.
    function setMarket(address market, bool allowed) external;

    // ------------------------------------------------------------------------------------------------------------ views

    /// @notice One provider. Reverts {ProviderNotRegistered} when there is none.
    function providerOf(address owner) external view returns (ProviderView memory);
    /// @notice Providers ever registered; none is ever removed.
    function providerCount() external view returns (uint256);
    /// @notice Providers in order of registration. Reverts {PageTooLarge} when `limit` > MAX_PAGE.
    function providersPage(uint256 offset, uint256 limit) external view returns (ProviderView[] memory);
    /// @notice Live offerings of one provider, in no particular order. Reverts {PageTooLarge} when `limit` > MAX_PAGE.
    function offeringsPage(address provider, uint256 offset, uint256 limit)
        external
        view
        returns (OfferingView[] memory);
    /// @notice Number of providers with a live offering of a model, active or not.
    function modelProviderCount(bytes32 modelKey) external view returns (uint256);
    /// @notice Providers with a live offering of a model, in no particular order. Reverts {PageTooLarge} when `limit` > MAX_PAGE.
    function modelProvidersPage(bytes32 modelKey, uint256 offset, uint256 limit)
        external
        view
        returns (address[] memory);
    /// @notice A record, live or not; all zero when there is none.
    function offeringOf(uint48 offeringId) external view returns (OfferingView memory);
    /// @notice Provider and prices of a record, live or not; all zero when there is none.
    function offeringTerms(uint48 offeringId)
        external
        view
        returns (address provider, uint96 inputPrice, uint96 outputPrice);
    /// @notice A record and its provider if `account` acts for that provider; else zeros. What {settleSlotFor} returns.
    function termsFor(address account, uint256 offeringId) external view returns (OfferingTerms terms, address provider);
    /// @notice Record of what a provider asks for a model now; 0 when it does not offer it.
    function currentOfferingId(address provider, bytes32 modelKey) external view returns (uint48);
    /// @notice The owner whose operator this is; zero when none.
    function providerOfOperator(address operator) external view returns (address owner);
    /// @notice True when `account` is the provider's owner or its operator.
    function isProviderAccount(address provider, address account) external view returns (bool);
    /// @notice True when `account` is the owner, is the operator, or was an operator at `time` or later.
    /// @dev So that a signature given as operator binds the provider for the jobs of that time though the key is rotated since.
    function wasProviderAccount(address provider, address account, uint256 time) external view returns (bool);
    /// @notice Whether `count` slots could be taken now, and if not, why.
    function refusalOf(
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external view returns (Refusal);
    /// @notice Whether `market` is allowed to take slots (it may be suspended).
    function isMarket(address market) external view returns (bool);
    /// @notice Every market that was ever allowed, at most MAX_MARKETS: who has power over slots and stakes.
    function markets() external view returns (address[] memory);
    /// @notice Time from which, and until before which, a proposed market can be allowed; both 0 when it is not proposed.
    function marketProposal(address market) external view returns (uint40 from, uint40 until);
    /// @notice Whether tokens sent there would be stuck: the registry, the token, every market that was ever allowed.
    function isDeadEnd(address account) external view returns (bool);
    /// @notice Whether `market` has suspended itself.
    function isMarketSuspended(address market) external view returns (bool);
    /// @notice Collateral that slots for a largest payment of `payment` hold, rounded down.
    function collateralFor(uint96 payment) external view returns (uint96);

    /// @notice The ERC-20 token of stakes and payments.
    function token() external view returns (address);
    /// @notice Stake with which a provider can register, return, and stay when it unbonds while active.
    function minStake() external view returns (uint256);
    /// @notice Seconds after `lastSeen` in which a provider counts as live.
    function timeToLive() external view returns (uint256);
    /// @notice Seconds from {startUnbonding} to {withdrawStake}.
    function unbondingPeriod() external view returns (uint256);
    /// @notice Collateral per job in basis points of its largest payment; 0 = no collateral.
    function collateralBps() external view returns (uint256);
    /// @notice Slashed stake not yet swept.
    function burntStake() external view returns (uint256);
    /// @notice Where burnt stake goes: an address of which nobody has the key.
    function BURN_ADDRESS() external view returns (address);
    /// @notice Longest endpoint, in bytes.
    function MAX_ENDPOINT_BYTES() external view returns (uint256);
    /// @notice Longest model id, in bytes.
    function MAX_MODEL_ID_BYTES() external view returns (uint256);
    /// @notice Most live offerings of one provider.
    function MAX_LIVE_OFFERINGS() external view returns (uint256);
    /// @notice Most markets ever allowed.
    function MAX_MARKETS() external view returns (uint256);
    /// @notice Most items of one page.
    function MAX_PAGE() external view returns (uint256);
}
