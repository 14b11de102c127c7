// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {OfferingTerms} from "../types/OfferingTerms.sol";
import {IRefusalErrors} from "./IRefusalErrors.sol";

/// @title IProviderRegistry
/// @notice Who serves which model, at what price, with how many slots, how many of them are taken, and what stake stands behind it.
/// @dev A provider is identified by its owner address. All amounts are in the smallest unit of the one ERC-20 token that the
/// registry and its market share; all prices are such units per one million tokens of text; all times are Unix seconds.
interface IProviderRegistry is IRefusalErrors {
    // ---------------------------------------------------------------------------------------------------------- types

    /// @notice Why a provider cannot take a job now. `None` means that it can.
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
    /// @param lastSeen Time of the last transaction of owner or operator.
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

    event ProviderRegistered(
        address indexed provider,
        address indexed operator,
        address payout,
        uint32 generation,
        uint32 maxConcurrentJobs,
        string endpoint
    );
    event ProviderDeactivated(address indexed provider);
    event ProviderReactivated(address indexed provider, uint32 generation);
    event OperatorChanged(address indexed provider, address indexed previousOperator, address indexed operator);
    event EndpointChanged(address indexed provider, string endpoint);
    event PayoutChanged(address indexed provider, address payout);
    event Heartbeat(address indexed provider);

    /// @notice The provider published another cap.
    event MaxConcurrentJobsUpdated(
        address indexed provider, uint32 previousMax, uint32 maxConcurrentJobs, uint32 openJobs
    );
    /// @notice Slots were taken or freed. Carries the state after the change, so that an index needs no read call.
    event SlotsChanged(address indexed provider, uint32 openJobs, uint32 maxConcurrentJobs);

    event OfferingSet(
        address indexed provider,
        bytes32 indexed modelKey,
        uint48 offeringId,
        uint96 inputPrice,
        uint96 outputPrice,
        uint32 contextLength,
        string modelId
    );
    event OfferingRemoved(address indexed provider, bytes32 indexed modelKey, uint48 offeringId);

    event Staked(address indexed provider, uint256 amount, uint256 stake);
    event UnbondingStarted(address indexed provider, uint256 amount, uint256 stake, uint40 unbondingAt);
    event StakeWithdrawn(address indexed provider, address indexed to, uint256 amount);
    event StakeSlashed(address indexed provider, uint256 amount, uint256 stake);
    event BurntStakeSwept(uint256 amount);

    event MarketSet(address indexed market, bool allowed);
    event MarketSuspended(address indexed market, bool suspended);

    // --------------------------------------------------------------------------------------------------------- errors

    error ProviderAlreadyRegistered(address provider);
    error ProviderActive(address provider);
    error NotProvider(address caller);
    error OperatorTaken(address operator, address provider);
    error InvalidOperator(address operator);
    error InvalidPayout(address payout);
    error InvalidEndpoint(uint256 length, uint256 maxLength);
    error InvalidModelId(uint256 length, uint256 maxLength);
    error InvalidPrice(uint96 inputPrice, uint96 outputPrice);
    error InvalidContextLength(uint32 contextLength);
    error TooManyOfferings(uint256 max);
    error TooManyMarkets(uint256 max);
    error SlotUnderflow(address provider, uint32 openJobs, uint32 count);
    error InvalidAmount(uint256 amount);
    error UnbondingPending(uint40 unbondingAt);
    error NothingUnbonding(address provider);
    error StakeLocked(uint256 available, uint256 requested);
    error PageTooLarge(uint256 limit, uint256 max);
    error InvalidParameter(bytes32 name);

    // -------------------------------------------------------------------------------------------- provider's functions

    /// @notice Registers the caller as a provider. Its cap is 0 (unset) until `setMaxConcurrentJobs`.
    /// @dev Emits {ProviderRegistered}, and {Staked} when `stakeAmount` > 0. Pulls `stakeAmount` tokens from the caller.
    /// Requires: caller not registered; operator non-zero and not in use by any provider (it may be the caller);
    /// payout non-zero; endpoint of 1..MAX_ENDPOINT_BYTES bytes; stake after the call >= `minStake`.
    function register(address operator, address payout, string calldata endpoint, uint256 stakeAmount) external;

    /// @notice Replaces the operator key. Owner only. Emits {OperatorChanged}.
    function setOperator(address operator) external;

    /// @notice The calling operator gives its office back; the owner becomes its own operator. Emits {OperatorChanged}.
    /// @dev Nobody can hold an address hostage by naming it as operator without its consent.
    function resignOperator() external;

    /// @notice Replaces the endpoint. Owner or operator. Emits {EndpointChanged}.
    function setEndpoint(string calldata endpoint) external;

    /// @notice Replaces the payout address. Owner only. Emits {PayoutChanged}.
    function setPayout(address payout) external;

    /// @notice Stops new jobs; open jobs go on. Owner only. Emits {ProviderDeactivated}.
    function deactivate() external;

    /// @notice Comes back after `deactivate`. Owner only; stake must be >= `minStake`. Emits {ProviderReactivated}.
    function reactivate() external;

    /// @notice Publishes the cap on open jobs; 0 removes it. Owner or operator. Cancels no open job.
    /// @dev Emits {MaxConcurrentJobsUpdated}. Reverts {NotProvider} for anyone else.
    function setMaxConcurrentJobs(uint32 maxConcurrentJobs) external;

    /// @notice Sets or changes the offering of one model. Owner or operator. O(1).
    /// @dev Emits {OfferingSet} with a new `offeringId`; jobs already open keep the price of their own record.
    /// Requires: model id of 1..MAX_MODEL_ID_BYTES bytes; not both prices zero; contextLength > 0; at most MAX_LIVE_OFFERINGS live.
    /// @return offeringId Id of the new record.
    function setOffering(string calldata modelId, uint96 inputPrice, uint96 outputPrice, uint32 contextLength)
        external
        returns (uint48 offeringId);

    /// @notice Removes the offering of one model. Owner or operator. Emits {OfferingRemoved}.
    function removeOffering(string calldata modelId) external;

    /// @notice Shows that the provider lives. Owner or operator. Emits {Heartbeat}.
    function heartbeat() external;

    /// @notice Adds stake for the calling owner. Emits {Staked}.
    function addStake(uint256 amount) external;

    /// @notice Moves stake into unbonding. Owner only; one unbonding at a time. Emits {UnbondingStarted}.
    /// @dev While active the rest must stay >= `minStake` (deactivate to take all). Stake in unbonding still answers for slashes.
    function startUnbonding(uint256 amount) external;

    /// @notice Pays the unbonded stake to the payout address, whatever any client does. Owner only, after `unbondingAt`.
    /// @dev Emits {StakeWithdrawn}.
    function withdrawStake() external;

    // ------------------------------------------------------------------------------------------------ market's functions

    /// @notice Takes `count` slots of a provider. Markets only.
    /// @dev Emits {SlotsChanged}. Reverts {ProviderAtCapacity} when the cap is not 0 and openJobs + count would pass it, and with
    /// the error that belongs to each other {Refusal}.
    /// @param payment Largest payment of the job; the collateral taken from the stake is computed from it.
    /// @return offeringId Record whose price the job keeps.
    function acquireSlots(
        address provider,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint96 payment,
        uint32 count,
        bytes32 modelKey
    ) external returns (uint48 offeringId);

    /// @notice Takes `count` slots of the first candidate that can give them; never reverts for a candidate that cannot. Markets only.
    /// @dev Emits {SlotsChanged} for the chosen one.
    /// @return index Position of the chosen candidate; `candidates.length` when none could.
    function acquireSlotsAny(
        address[] calldata candidates,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external returns (uint256 index, uint48 offeringId);

    /// @notice Frees slots that this market took, and the collateral that they held. Reverts {SlotUnderflow}, never saturates.
    /// @dev Any address that ever was a market. Emits {SlotsChanged}, and {Heartbeat} when it refreshes `lastSeen`.
    /// @param collateral Sum of what {acquireSlots} returned for these slots.
    /// @param seen The provider itself acted: refreshes `lastSeen` as {touch} does.
    function releaseSlots(address provider, uint32 count, uint128 collateral, bool seen) external;

    /// @notice As {releaseSlots}, for one slot of the provider of a record, if `account` acts for it; else does nothing and returns 0.
    function settleSlotFor(address account, uint256 offeringId, uint256 collateral)
        external
        returns (OfferingTerms terms, address provider);

    /// @notice Frees slots and burns their collateral, at most the stake, unbonding stake included.
    /// @dev Any address that ever was a market, which must hold the provider's signed acknowledgement. Emits {SlotsChanged} and
    /// {StakeSlashed}; {ProviderDeactivated} when the stake falls below `minStake`.
    /// @return burnt Amount taken from the stake; at most `collateral`.
    function releaseSlotsAndSlash(address provider, uint32 count, uint128 collateral) external returns (uint128 burnt);

    /// @notice Refreshes `lastSeen` of an active provider whose owner or operator just acted in the market.
    /// @dev Any address that ever was a market. Emits {Heartbeat} when `lastSeen` is older than an eighth of `timeToLive`; does
    /// nothing when it is younger, so that a busy provider pays for one refresh in that time, or when the provider is inactive.
    function touch(address provider) external;

    /// @notice The calling market stops, or resumes, taking slots; while suspended it gets {EnforcedPause}.
    /// @dev Any address that ever was a market, for itself. Emits {MarketSuspended}.
    function setMarketSuspended(bool suspended) external;

    // ------------------------------------------------------------------------------------------------------- anyone's

    /// @notice Sends slashed stake out of reach (BURN_ADDRESS). Anyone. Emits {BurntStakeSwept}.
    function sweepBurntStake() external;

    // ---------------------------------------------------------------------------------------------------------- owner's

    /// @notice Allows or forbids a market to take new slots. Contract owner only. A forbidden market can still free its slots.
    function setMarket(address market, bool allowed) external;

    // ------------------------------------------------------------------------------------------------------------ views

    function providerOf(address owner) external view returns (ProviderView memory);
    function providerCount() external view returns (uint256);
    /// @notice Providers in order of registration, at most MAX_PAGE a call.
    function providersPage(uint256 offset, uint256 limit) external view returns (ProviderView[] memory);
    /// @notice Live offerings of one provider, at most MAX_PAGE a call.
    function offeringsPage(address provider, uint256 offset, uint256 limit)
        external
        view
        returns (OfferingView[] memory);
    /// @notice Providers with a live offering of a model, at most MAX_PAGE a call.
    function modelProviderCount(bytes32 modelKey) external view returns (uint256);
    function modelProvidersPage(bytes32 modelKey, uint256 offset, uint256 limit)
        external
        view
        returns (address[] memory);
    function offeringOf(uint48 offeringId) external view returns (OfferingView memory);
    /// @notice Provider and prices of a record, live or not: what a settlement needs.
    function offeringTerms(uint48 offeringId)
        external
        view
        returns (address provider, uint96 inputPrice, uint96 outputPrice);
    /// @notice Terms of a record if `account` acts for its provider; else 0.
    function termsFor(address account, uint256 offeringId) external view returns (OfferingTerms terms, address provider);
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
    function isMarketSuspended(address market) external view returns (bool);
    /// @notice Collateral that slots for a largest payment of `payment` hold, rounded down.
    function collateralFor(uint96 payment) external view returns (uint96);

    function token() external view returns (address);
    function minStake() external view returns (uint256);
    /// @notice Seconds after `lastSeen` in which a provider counts as live.
    function timeToLive() external view returns (uint256);
    function unbondingPeriod() external view returns (uint256);
    /// @notice Collateral per job in basis points of its largest payment; 0 = no collateral.
    function collateralBps() external view returns (uint256);
    /// @notice Slashed stake not yet swept.
    function burntStake() external view returns (uint256);
    function BURN_ADDRESS() external view returns (address);
    function MAX_ENDPOINT_BYTES() external view returns (uint256);
    function MAX_MODEL_ID_BYTES() external view returns (uint256);
    /// @notice Most live offerings of one provider.
    function MAX_LIVE_OFFERINGS() external view returns (uint256);
    /// @notice Most markets ever allowed.
    function MAX_MARKETS() external view returns (uint256);
    /// @notice Most items of one page.
    function MAX_PAGE() external view returns (uint256);
}
