// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";

import {IProviderRegistry} from "./interfaces/IProviderRegistry.sol";
import {CurrentOffering, NO_OFFERING, packCurrentOffering} from "./types/CurrentOffering.sol";
import {NO_TERMS, OfferingTerms, packTerms} from "./types/OfferingTerms.sol";
import {NO_PRINCIPAL, Principal, packPrincipal} from "./types/Principal.sol";
import {ProviderState} from "./types/ProviderState.sol";

/// @title ProviderRegistry
/// @dev Documentation of functions, events and errors: {IProviderRegistry}.
contract ProviderRegistry is IProviderRegistry, Ownable2Step, ReentrancyGuard {
    using EnumerableSet for EnumerableSet.AddressSet;
    using EnumerableSet for EnumerableSet.Bytes32Set;
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    // ---------------------------------------------------------------------------------------------------------- types

    struct Parameters {
        uint256 minStake;
        uint256 timeToLive;
        uint256 unbondingPeriod;
        uint256 collateralBps;
    }

    /// @dev The fields of one slot are read together.
    struct Provider {
        // slot 0: what a job reads and writes
        ProviderState state;
        // slot 1
        address operator;
        uint32 generation;
        uint40 unbondingAt;
        // slot 2
        address payout;
        // slot 3
        uint128 stake;
        uint128 unbonding;
        // slot 4
        string endpoint;
        // slots 5 and 6: keys of the live offerings
        EnumerableSet.Bytes32Set models;
    }

    /// @dev One slot.
    struct Market {
        bool known; // was allowed once, so it may hold slots
        bool allowed;
        bool suspended;
        uint40 allowableFrom; // 0 = not proposed
    }

    // ------------------------------------------------------------------------------------------------------ constants

    /// @inheritdoc IProviderRegistry
    address public constant BURN_ADDRESS = 0x000000000000000000000000000000000000dEaD;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_ENDPOINT_BYTES = 256;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_MODEL_ID_BYTES = 128;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_LIVE_OFFERINGS = 64;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_PAGE = 100;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_MARKETS = 8;

    uint256 private constant BPS = 10_000;
    uint256 private constant MAX_UNBONDING_PERIOD = 365 days;
    uint256 private constant MAX_STAKE = uint128(type(int128).max);
    /// @dev The market refreshes `lastSeen` when it is older than this part of the time to live.
    uint256 private constant REFRESH_DIVISOR = 8;
    /// @dev Unbonding periods from the proposal of a market until it can be allowed: one to notice it, one in which an unbonding that
    /// was begun meanwhile ends, one to take out the rest.
    uint256 private constant NOTICE_PERIODS = 3;
    /// @dev Unbonding periods in which it can then be allowed: a proposal that was forgotten is void.
    uint256 private constant GRACE_PERIODS = 1;

    IERC20 private immutable TOKEN;
    uint256 private immutable MIN_STAKE;
    uint256 private immutable TIME_TO_LIVE;
    uint256 private immutable REFRESH_AFTER;
    uint256 private immutable UNBONDING_PERIOD;
    uint256 private immutable COLLATERAL_BPS;

    // -------------------------------------------------------------------------------------------------------- storage

    mapping(address owner => Provider provider) private _providers;
    mapping(address account => Principal principal) private _principals;
    /// @dev What `_principals` says, again under each market that was known when it was written: there or 0. One read then tells
    /// both that the caller is a market and who the account acts for. Written by {_setPrincipal} only.
    mapping(address market => mapping(address account => Principal principal)) private _marketPrincipals;
    mapping(address market => Market row) private _markets;
    /// @dev Markets ever allowed.
    address[] private _knownMarkets;
    mapping(address owner => mapping(bytes32 modelKey => CurrentOffering offering)) private _current;
    mapping(uint256 offeringId => OfferingTerms terms) private _terms;
    mapping(uint256 offeringId => bytes32 modelKey) private _modelKeys;
    mapping(bytes32 modelKey => string modelId) private _modelIds;
    mapping(bytes32 modelKey => EnumerableSet.AddressSet owners) private _modelProviders;
    /// @dev When an account ceased to be operator of an owner.
    mapping(address owner => mapping(address operator => uint256 time)) private _resignedAt;
    /// @dev In order of registration; provider number n is at n - 1.
    address[] private _owners;
    /// @dev 40 bits, because a market may keep so many.
    uint40 private _lastOfferingId;
    uint256 private _burntStake;

    // ---------------------------------------------------------------------------------------------------- constructor

    constructor(address token_, address initialOwner, Parameters memory parameters) Ownable(initialOwner) {
        if (token_.code.length == 0) revert InvalidParameter("token");
        if (parameters.minStake > type(uint96).max) revert InvalidParameter("minStake");
        if (parameters.timeToLive == 0 || parameters.timeToLive > type(uint32).max) {
            revert InvalidParameter("timeToLive");
        }
        if (parameters.unbondingPeriod == 0 || parameters.unbondingPeriod > MAX_UNBONDING_PERIOD) {
            revert InvalidParameter("unbondingPeriod");
        }
        if (parameters.collateralBps > BPS) revert InvalidParameter("collateralBps");
        TOKEN = IERC20(token_);
        MIN_STAKE = parameters.minStake;
        TIME_TO_LIVE = parameters.timeToLive;
        REFRESH_AFTER = parameters.timeToLive / REFRESH_DIVISOR;
        UNBONDING_PERIOD = parameters.unbondingPeriod;
        COLLATERAL_BPS = parameters.collateralBps;
    }

    // -------------------------------------------------------------------------------------------- provider's functions

    /// @inheritdoc IProviderRegistry
    function register(address operator, address payout, string calldata endpoint, uint256 stakeAmount)
        external
        nonReentrant
    {
        Provider storage provider = _providers[msg.sender];
        if (provider.state.isRegistered()) revert ProviderAlreadyRegistered(msg.sender);
        if (_knownMarkets.length == 0) revert NoMarket();
        address employer = _principals[msg.sender].owner();
        if (employer != address(0)) _resign(employer, msg.sender);

        _owners.push(msg.sender);
        uint32 providerId = _owners.length.toUint32();
        _setPrincipal(msg.sender, packPrincipal(msg.sender, providerId));
        _appoint(msg.sender, operator, providerId);
        provider.operator = operator;
        provider.generation = 1;
        provider.payout = _checkedPayout(payout);
        provider.endpoint = _checkedEndpoint(endpoint);
        provider.state = provider.state.withActive(true).withLastSeen(uint40(block.timestamp));
        emit ProviderRegistered(msg.sender, operator, payout, 1, 0, endpoint);

        if (stakeAmount != 0) _addStake(msg.sender, stakeAmount);
        _requireMinStake(provider);
    }

    /// @inheritdoc IProviderRegistry
    function setOperator(address operator) external {
        Provider storage provider = _ownProvider();
        address previous = provider.operator;
        if (operator != previous) {
            _dismiss(msg.sender, previous);
            _appoint(msg.sender, operator, _principals[msg.sender].providerId());
            provider.operator = operator;
        }
        _touch(provider);
        emit OperatorChanged(msg.sender, previous, operator);
    }

    /// @inheritdoc IProviderRegistry
    function resignOperator() external {
        address owner_ = _principals[msg.sender].owner();
        if (owner_ == address(0) || owner_ == msg.sender) _refuseCaller();
        _resign(owner_, msg.sender);
    }

    /// @inheritdoc IProviderRegistry
    function setEndpoint(string calldata endpoint) external {
        (address owner_, Provider storage provider) = _actingProvider();
        provider.endpoint = _checkedEndpoint(endpoint);
        _touch(provider);
        emit EndpointChanged(owner_, endpoint);
    }

    /// @inheritdoc IProviderRegistry
    function setPayout(address payout) external {
        Provider storage provider = _ownProvider();
        provider.payout = _checkedPayout(payout);
        _touch(provider);
        emit PayoutChanged(msg.sender, payout);
    }

    /// @inheritdoc IProviderRegistry
    function deactivate() external {
        Provider storage provider = _ownProvider();
        if (!provider.state.isActive()) revert ProviderInactive(msg.sender);
        provider.state = provider.state.withActive(false);
        emit ProviderDeactivated(msg.sender);
    }

    /// @inheritdoc IProviderRegistry
    function reactivate() external {
        Provider storage provider = _ownProvider();
        if (provider.state.isActive()) revert ProviderActive(msg.sender);
        _requireMinStake(provider);
        uint32 generation = provider.generation + 1;
        provider.generation = generation;
        provider.state = provider.state.withActive(true).withLastSeen(uint40(block.timestamp));
        emit ProviderReactivated(msg.sender, generation);
    }

    /// @inheritdoc IProviderRegistry
    function setMaxConcurrentJobs(uint32 maxConcurrentJobs) external {
        (address owner_, Provider storage provider) = _actingProvider();
        ProviderState state = provider.state;
        provider.state = _seenNow(state).withMaxConcurrentJobs(maxConcurrentJobs);
        emit MaxConcurrentJobsUpdated(owner_, state.maxConcurrentJobs(), maxConcurrentJobs, state.openJobs());
    }

    /// @inheritdoc IProviderRegistry
    function setOffering(string calldata modelId, uint96 inputPrice, uint96 outputPrice, uint32 contextLength)
        external
        returns (uint48 offeringId)
    {
        (address owner_, Provider storage provider) = _actingProvider();
        if (inputPrice == 0 && outputPrice == 0) revert InvalidPrice(inputPrice, outputPrice);
        if (contextLength == 0) revert InvalidContextLength(contextLength);
        bytes32 modelKey = _listModel(owner_, provider, modelId);
        offeringId = ++_lastOfferingId;
        _terms[offeringId] = packTerms(_principals[owner_].providerId(), inputPrice, outputPrice, contextLength);
        _modelKeys[offeringId] = modelKey;
        _current[owner_][modelKey] = packCurrentOffering(offeringId, inputPrice, outputPrice);
        _touch(provider);
        emit OfferingSet(owner_, modelKey, offeringId, inputPrice, outputPrice, contextLength, modelId);
    }

    /// @inheritdoc IProviderRegistry
    function removeOffering(string calldata modelId) external {
        (address owner_, Provider storage provider) = _actingProvider();
        bytes32 modelKey = keccak256(bytes(modelId));
        uint48 offeringId = _current[owner_][modelKey].offeringId();
        if (offeringId == 0) revert OfferingNotFound(owner_, modelKey);
        _current[owner_][modelKey] = NO_OFFERING;
        provider.models.remove(modelKey);
        _modelProviders[modelKey].remove(owner_);
        _touch(provider);
        emit OfferingRemoved(owner_, modelKey, offeringId);
    }

    /// @inheritdoc IProviderRegistry
    function heartbeat() external {
        (address owner_, Provider storage provider) = _actingProvider();
        ProviderState state = provider.state;
        if (!state.isActive()) revert ProviderInactive(owner_);
        provider.state = state.withLastSeen(uint40(block.timestamp));
        emit Heartbeat(owner_);
    }

    /// @inheritdoc IProviderRegistry
    function addStake(uint256 amount) external nonReentrant {
        Provider storage provider = _ownProvider();
        _touch(provider);
        _addStake(msg.sender, amount);
    }

    /// @inheritdoc IProviderRegistry
    function startUnbonding(uint256 amount) external {
        Provider storage provider = _ownProvider();
        if (provider.unbonding != 0) revert UnbondingPending(provider.unbondingAt);
        if (amount == 0) revert InvalidAmount(amount);
        uint256 stake = provider.stake;
        uint256 kept = provider.state.isActive() ? MIN_STAKE : 0;
        uint256 available = stake > kept ? stake - kept : 0;
        if (amount > available) revert StakeLocked(available, amount);

        uint40 unbondingAt = uint40(block.timestamp + UNBONDING_PERIOD);
        stake -= amount;
        provider.stake = uint128(stake);
        provider.unbonding = uint128(amount);
        provider.unbondingAt = unbondingAt;
        provider.state = _moved(_seenNow(provider.state), -int256(amount), stake);
        emit UnbondingStarted(msg.sender, amount, stake, unbondingAt);
    }

    /// @inheritdoc IProviderRegistry
    function withdrawStake() external nonReentrant {
        Provider storage provider = _ownProvider();
        uint256 amount = provider.unbonding;
        if (amount == 0) revert NothingUnbonding(msg.sender);
        if (block.timestamp < provider.unbondingAt) revert UnbondingPending(provider.unbondingAt);
        // Checked again: an address can have become a market since.
        address payout = _checkedPayout(provider.payout);
        provider.unbonding = 0;
        provider.unbondingAt = 0;
        _touch(provider);
        emit StakeWithdrawn(msg.sender, payout, amount);
        TOKEN.safeTransfer(payout, amount);
    }

    // ------------------------------------------------------------------------------------------------ market's functions

    /// @inheritdoc IProviderRegistry
    function acquireSlots(
        address provider,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint96 payment,
        uint32 count,
        bytes32 modelKey
    ) external returns (uint48 offeringId) {
        _requireOpenMarket();
        if (count == 0) revert InvalidAmount(count);
        uint96 collateral = collateralFor(payment);
        Refusal refusal;
        (refusal, offeringId) = _tryAcquire(provider, modelKey, maxInputPrice, maxOutputPrice, count, collateral);
        if (refusal != Refusal.None) {
            _revertRefusal(refusal, provider, modelKey, maxInputPrice, maxOutputPrice, collateral);
        }
    }

    /// @inheritdoc IProviderRegistry
    function acquireSlotsAny(
        address[] calldata candidates,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external returns (uint256 index, uint48 offeringId) {
        _requireOpenMarket();
        if (count == 0) revert InvalidAmount(count);
        uint96 collateral = collateralFor(payment);
        for (; index < candidates.length; ++index) {
            Refusal refusal;
            (refusal, offeringId) =
                _tryAcquire(candidates[index], modelKey, maxInputPrice, maxOutputPrice, count, collateral);
            if (refusal == Refusal.None) return (index, offeringId);
        }
        return (index, 0);
    }

    /// @inheritdoc IProviderRegistry
    function releaseSlots(address provider, uint32 count, uint128 collateral, bool seen) external {
        _requireKnownMarket();
        Provider storage row = _providers[provider];
        ProviderState state = _released(provider, row.state, count, collateral);
        if (seen) state = _refreshed(provider, state);
        row.state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
    }

    /// @inheritdoc IProviderRegistry
    function settleSlotFor(address account, uint256 offeringId, uint256 collateral)
        external
        returns (OfferingTerms terms, address provider)
    {
        Principal principal = _marketPrincipals[msg.sender][account];
        if (!principal.exists()) {
            // A market that was added after the account began to act.
            _requireKnownMarket();
            principal = _principals[account];
        }
        (terms, provider) = _termsFor(principal, offeringId);
        if (provider == address(0)) return (NO_TERMS, address(0));
        Provider storage row = _providers[provider];
        ProviderState state = _refreshed(provider, _released(provider, row.state, 1, uint128(collateral)));
        row.state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
    }

    /// @inheritdoc IProviderRegistry
    function releaseSlotsAndSlash(address provider, uint32 count, uint128 collateral) external returns (uint128 burnt) {
        _requireKnownMarket();
        Provider storage row = _providers[provider];
        uint128 stake = row.stake;
        uint128 unbonding = row.unbonding;
        uint128 fromStake = collateral < stake ? collateral : stake;
        uint128 fromUnbonding = collateral - fromStake < unbonding ? collateral - fromStake : unbonding;
        burnt = fromStake + fromUnbonding;
        stake -= fromStake;
        row.stake = stake;
        row.unbonding = unbonding - fromUnbonding;
        if (fromUnbonding != 0 && fromUnbonding == unbonding) row.unbondingAt = 0;
        _burntStake += burnt;

        ProviderState state = _moved(_released(provider, row.state, count, collateral - fromStake), 0, stake);
        bool deactivated = stake < MIN_STAKE && state.isActive();
        if (deactivated) state = state.withActive(false);
        row.state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
        emit StakeSlashed(provider, burnt, stake);
        if (deactivated) emit ProviderDeactivated(provider);
    }

    /// @inheritdoc IProviderRegistry
    function touch(address provider) external {
        _requireKnownMarket();
        _providers[provider].state = _refreshed(provider, _providers[provider].state);
    }

    /// @inheritdoc IProviderRegistry
    function setMarketSuspended(bool suspended) external {
        _requireKnownMarket();
        _markets[msg.sender].suspended = suspended;
        emit MarketSuspended(msg.sender, suspended);
    }

    // --------------------------------------------------------------------------------------------- anyone's and owner's

    /// @inheritdoc IProviderRegistry
    function sweepBurntStake() external nonReentrant {
        uint256 amount = _burntStake;
        if (amount == 0) revert InvalidAmount(amount);
        _burntStake = 0;
        emit BurntStakeSwept(amount);
        TOKEN.safeTransfer(BURN_ADDRESS, amount);
    }

    /// @inheritdoc IProviderRegistry
    function proposeMarket(address market) external onlyOwner {
        _requireCode(market);
        Market storage row = _markets[market];
        if (row.known) revert MarketKnown(market);
        unchecked {
            // A period is at most a year.
            row.allowableFrom = uint40(block.timestamp + NOTICE_PERIODS * UNBONDING_PERIOD);
        }
        (uint40 from, uint40 until) = marketProposal(market);
        emit MarketProposed(market, from, until);
    }

    /// @inheritdoc IProviderRegistry
    function setMarket(address market, bool allowed) external onlyOwner {
        Market storage row = _markets[market];
        if (allowed && !row.known) {
            _requireCode(market);
            // Before the first provider there is no stake to warn.
            if (_owners.length != 0) _requireDue(market);
            if (_knownMarkets.length >= MAX_MARKETS) revert TooManyMarkets(MAX_MARKETS);
            _knownMarkets.push(market);
            row.known = true;
        } else if (!allowed && row.allowableFrom != 0) {
            emit MarketProposalWithdrawn(market);
        }
        row.allowableFrom = 0;
        row.allowed = allowed;
        emit MarketSet(market, allowed);
    }

    // ------------------------------------------------------------------------------------------------------------ views

    /// @inheritdoc IProviderRegistry
    function providerOf(address owner_) public view returns (ProviderView memory) {
        Provider storage provider = _providers[owner_];
        ProviderState state = provider.state;
        if (!state.isRegistered()) revert ProviderNotRegistered(owner_);
        return ProviderView({
            owner: owner_,
            operator: provider.operator,
            payout: provider.payout,
            active: state.isActive(),
            lastSeen: state.lastSeen(),
            generation: provider.generation,
            maxConcurrentJobs: state.maxConcurrentJobs(),
            openJobs: state.openJobs(),
            exposure: _exposure(provider.stake, state.headroom()),
            stake: provider.stake,
            unbonding: provider.unbonding,
            unbondingAt: provider.unbondingAt,
            offeringCount: uint32(provider.models.length()),
            endpoint: provider.endpoint
        });
    }

    /// @inheritdoc IProviderRegistry
    function providerCount() external view returns (uint256) {
        return _owners.length;
    }

    /// @inheritdoc IProviderRegistry
    function providersPage(uint256 offset, uint256 limit) external view returns (ProviderView[] memory page) {
        uint256 size = _pageSize(_owners.length, offset, limit);
        page = new ProviderView[](size);
        for (uint256 i = 0; i < size; ++i) {
            page[i] = providerOf(_owners[offset + i]);
        }
    }

    /// @inheritdoc IProviderRegistry
    function offeringsPage(address provider, uint256 offset, uint256 limit)
        external
        view
        returns (OfferingView[] memory page)
    {
        EnumerableSet.Bytes32Set storage models = _providers[provider].models;
        uint256 size = _pageSize(models.length(), offset, limit);
        page = new OfferingView[](size);
        for (uint256 i = 0; i < size; ++i) {
            page[i] = offeringOf(_current[provider][models.at(offset + i)].offeringId());
        }
    }

    /// @inheritdoc IProviderRegistry
    function modelProviderCount(bytes32 modelKey) external view returns (uint256) {
        return _modelProviders[modelKey].length();
    }

    /// @inheritdoc IProviderRegistry
    function modelProvidersPage(bytes32 modelKey, uint256 offset, uint256 limit)
        external
        view
        returns (address[] memory page)
    {
        EnumerableSet.AddressSet storage providers = _modelProviders[modelKey];
        uint256 size = _pageSize(providers.length(), offset, limit);
        page = new address[](size);
        for (uint256 i = 0; i < size; ++i) {
            page[i] = providers.at(offset + i);
        }
    }

    /// @inheritdoc IProviderRegistry
    function offeringOf(uint48 offeringId) public view returns (OfferingView memory) {
        OfferingTerms terms = _terms[offeringId];
        if (!terms.exists()) return OfferingView(0, address(0), 0, 0, 0, 0, false, "");
        address provider = _owners[terms.providerId() - 1];
        bytes32 modelKey = _modelKeys[offeringId];
        return OfferingView({
            offeringId: offeringId,
            provider: provider,
            modelKey: modelKey,
            inputPrice: terms.inputPrice(),
            outputPrice: terms.outputPrice(),
            contextLength: terms.contextLength(),
            live: _current[provider][modelKey].offeringId() == offeringId,
            modelId: _modelIds[modelKey]
        });
    }

    /// @inheritdoc IProviderRegistry
    function offeringTerms(uint48 offeringId)
        external
        view
        returns (address provider, uint96 inputPrice, uint96 outputPrice)
    {
        OfferingTerms terms = _terms[offeringId];
        if (!terms.exists()) return (address(0), 0, 0);
        return (_owners[terms.providerId() - 1], terms.inputPrice(), terms.outputPrice());
    }

    /// @inheritdoc IProviderRegistry
    function termsFor(address account, uint256 offeringId)
        external
        view
        returns (OfferingTerms terms, address provider)
    {
        return _termsFor(_principals[account], offeringId);
    }

    /// @inheritdoc IProviderRegistry
    function currentOfferingId(address provider, bytes32 modelKey) external view returns (uint48) {
        return _current[provider][modelKey].offeringId();
    }

    /// @inheritdoc IProviderRegistry
    function providerOfOperator(address operator) external view returns (address owner_) {
        owner_ = _principals[operator].owner();
        if (_providers[owner_].operator != operator) return address(0);
    }

    /// @inheritdoc IProviderRegistry
    function isProviderAccount(address provider, address account) public view returns (bool) {
        return provider != address(0) && _principals[account].owner() == provider;
    }

    /// @inheritdoc IProviderRegistry
    function wasProviderAccount(address provider, address account, uint256 time) external view returns (bool) {
        if (isProviderAccount(provider, account)) return true;
        uint256 resignedAt = _resignedAt[provider][account];
        return resignedAt != 0 && resignedAt >= time;
    }

    /// @inheritdoc IProviderRegistry
    function refusalOf(
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external view returns (Refusal refusal) {
        (refusal,) = _refusalOf(
            provider, _providers[provider].state, modelKey, maxInputPrice, maxOutputPrice, count, collateralFor(payment)
        );
    }

    /// @inheritdoc IProviderRegistry
    function isMarket(address market) external view returns (bool) {
        return _markets[market].allowed;
    }

    /// @inheritdoc IProviderRegistry
    function markets() external view returns (address[] memory) {
        return _knownMarkets;
    }

    /// @inheritdoc IProviderRegistry
    function marketProposal(address market) public view returns (uint40 from, uint40 until) {
        from = _markets[market].allowableFrom;
        unchecked {
            if (from != 0) until = uint40(from + GRACE_PERIODS * UNBONDING_PERIOD);
        }
    }

    /// @inheritdoc IProviderRegistry
    function isDeadEnd(address account) public view returns (bool) {
        return account == address(this) || account == address(TOKEN) || _markets[account].known;
    }

    /// @inheritdoc IProviderRegistry
    function isMarketSuspended(address market) external view returns (bool) {
        return _markets[market].suspended;
    }

    /// @inheritdoc IProviderRegistry
    function collateralFor(uint96 payment) public view returns (uint96) {
        unchecked {
            // COLLATERAL_BPS <= BPS, so the result is at most `payment`.
            return uint96((uint256(payment) * COLLATERAL_BPS) / BPS);
        }
    }

    /// @inheritdoc IProviderRegistry
    function token() external view returns (address) {
        return address(TOKEN);
    }

    /// @inheritdoc IProviderRegistry
    function minStake() external view returns (uint256) {
        return MIN_STAKE;
    }

    /// @inheritdoc IProviderRegistry
    function timeToLive() external view returns (uint256) {
        return TIME_TO_LIVE;
    }

    /// @inheritdoc IProviderRegistry
    function unbondingPeriod() external view returns (uint256) {
        return UNBONDING_PERIOD;
    }

    /// @inheritdoc IProviderRegistry
    function collateralBps() external view returns (uint256) {
        return COLLATERAL_BPS;
    }

    /// @inheritdoc IProviderRegistry
    function burntStake() external view returns (uint256) {
        return _burntStake;
    }

    // ---------------------------------------------------------------------------------------------------------- callers

    /// @dev The provider that the caller owns.
    function _ownProvider() private view returns (Provider storage provider) {
        provider = _providers[msg.sender];
        if (!provider.state.isRegistered()) _refuseCaller();
    }

    /// @dev The provider that the caller owns or operates.
    function _actingProvider() private view returns (address owner_, Provider storage provider) {
        owner_ = _principals[msg.sender].owner();
        if (owner_ == address(0)) _refuseCaller();
        provider = _providers[owner_];
    }

    function _refuseCaller() private view {
        revert NotProvider(msg.sender);
    }

    function _requireOpenMarket() private view {
        Market storage market = _markets[msg.sender];
        // Both before either is looked at: one read of the slot.
        (bool allowed, bool suspended) = (market.allowed, market.suspended);
        if (!allowed) revert NotMarket(msg.sender);
        if (suspended) revert EnforcedPause();
    }

    function _requireKnownMarket() private view {
        if (!_markets[msg.sender].known) revert NotMarket(msg.sender);
    }

    /// @dev The time of its proposal has come and is not over; without a proposal both ends are 0.
    function _requireDue(address market) private view {
        (uint40 from, uint40 until) = marketProposal(market);
        if (block.timestamp < from || block.timestamp >= until) revert MarketNotDue(market, from, until);
    }

    /// @dev What is to be judged must be there; and an address that nobody can be at would be a dead end for good.
    function _requireCode(address market) private view {
        if (market.code.length == 0) revert InvalidParameter("market");
    }

    /// @dev Makes `operator` act for `owner_`. The owner acts for itself from the start.
    function _appoint(address owner_, address operator, uint32 providerId) private {
        if (operator == address(0)) revert InvalidOperator(operator);
        if (operator == owner_) return;
        address employer = _principals[operator].owner();
        if (employer != address(0)) revert OperatorTaken(operator, employer);
        _setPrincipal(operator, packPrincipal(owner_, providerId));
    }

    function _setPrincipal(address account, Principal principal) private {
        _principals[account] = principal;
        uint256 count = _knownMarkets.length;
        for (uint256 i = 0; i < count; ++i) {
            _marketPrincipals[_knownMarkets[i]][account] = principal;
        }
    }

    /// @dev The owner becomes its own operator.
    function _resign(address owner_, address operator) private {
        Provider storage provider = _providers[owner_];
        _dismiss(owner_, operator);
        provider.operator = owner_;
        _touch(provider);
        emit OperatorChanged(owner_, operator, owner_);
    }

    function _dismiss(address owner_, address operator) private {
        if (operator == owner_) return;
        _setPrincipal(operator, NO_PRINCIPAL);
        _resignedAt[owner_][operator] = block.timestamp;
    }

    /// @dev Terms of a record and its provider, if that is whom the principal names; else zeros.
    function _termsFor(Principal principal, uint256 offeringId)
        private
        view
        returns (OfferingTerms terms, address provider)
    {
        terms = _terms[offeringId];
        if (principal.providerId() != terms.providerId()) return (NO_TERMS, address(0));
        provider = principal.owner();
    }

    // ----------------------------------------------------------------------------------------------------------- models

    /// @dev Puts the provider on the list of those that offer a model, if it is not there.
    function _listModel(address owner_, Provider storage provider, string calldata modelId)
        private
        returns (bytes32 modelKey)
    {
        uint256 length = bytes(modelId).length;
        if (length == 0 || length > MAX_MODEL_ID_BYTES) revert InvalidModelId(length, MAX_MODEL_ID_BYTES);
        modelKey = keccak256(bytes(modelId));
        if (!provider.models.add(modelKey)) return modelKey;
        if (provider.models.length() > MAX_LIVE_OFFERINGS) revert TooManyOfferings(MAX_LIVE_OFFERINGS);
        _modelProviders[modelKey].add(owner_);
        if (bytes(_modelIds[modelKey]).length == 0) _modelIds[modelKey] = modelId;
    }

    // --------------------------------------------------------------------------------------------------------- liveness

    /// @dev An inactive provider does not become fresh by acting.
    function _seenNow(ProviderState state) private view returns (ProviderState) {
        return state.isActive() ? state.withLastSeen(uint40(block.timestamp)) : state;
    }

    function _touch(Provider storage provider) private {
        provider.state = _seenNow(provider.state);
    }

    /// @dev As {_seenNow}, but seldom enough that the event, which an index needs, does not weigh on every job.
    function _refreshed(address provider, ProviderState state) private returns (ProviderState) {
        unchecked {
            // lastSeen is never later than now.
            if (block.timestamp - state.lastSeen() < REFRESH_AFTER || !state.isActive()) return state;
        }
        emit Heartbeat(provider);
        return state.withLastSeen(uint40(block.timestamp));
    }

    // ------------------------------------------------------------------------------------------------------------ slots

    function _tryAcquire(
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 collateral
    ) private returns (Refusal refusal, uint48 offeringId) {
        Provider storage row = _providers[provider];
        ProviderState state = row.state;
        (refusal, offeringId) = _refusalOf(provider, state, modelKey, maxInputPrice, maxOutputPrice, count, collateral);
        if (refusal != Refusal.None) return (refusal, 0);
        state = state.acquired(count, collateral);
        row.state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
    }

    function _refusalOf(
        address provider,
        ProviderState state,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 collateral
    ) private view returns (Refusal, uint48) {
        if (!state.isRegistered()) return (Refusal.UnknownProvider, 0);
        if (!state.isActive()) return (Refusal.Inactive, 0);
        unchecked {
            // lastSeen is never later than now.
            if (block.timestamp - state.lastSeen() > TIME_TO_LIVE) return (Refusal.Stale, 0);
        }
        CurrentOffering offering = _current[provider][modelKey];
        uint48 offeringId = offering.offeringId();
        if (offeringId == 0) return (Refusal.NoOffering, 0);
        if (offering.inputPrice() > maxInputPrice || offering.outputPrice() > maxOutputPrice) {
            return (Refusal.PriceAboveLimit, 0);
        }
        uint256 cap = state.maxConcurrentJobs();
        if (cap == 0) cap = type(uint32).max; // no cap but that of the counter
        unchecked {
            // Two values of 32 bits.
            if (uint256(state.openJobs()) + count > cap) return (Refusal.AtCapacity, 0);
        }
        if (int256(state.headroom()) < int256(uint256(collateral))) return (Refusal.InsufficientStake, 0);
        return (Refusal.None, offeringId);
    }

    function _revertRefusal(
        Refusal refusal,
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint96 collateral
    ) private view {
        ProviderState state = _providers[provider].state;
        if (refusal == Refusal.UnknownProvider) revert ProviderNotRegistered(provider);
        if (refusal == Refusal.Inactive) revert ProviderInactive(provider);
        if (refusal == Refusal.Stale) revert ProviderStale(provider, state.lastSeen(), TIME_TO_LIVE);
        if (refusal == Refusal.NoOffering) revert OfferingNotFound(provider, modelKey);
        if (refusal == Refusal.PriceAboveLimit) {
            CurrentOffering offering = _current[provider][modelKey];
            revert PriceAboveLimit(
                provider, offering.inputPrice(), offering.outputPrice(), maxInputPrice, maxOutputPrice
            );
        }
        if (refusal == Refusal.AtCapacity) {
            revert ProviderAtCapacity(provider, state.openJobs(), state.maxConcurrentJobs());
        }
        int256 headroom = state.headroom();
        revert InsufficientStake(provider, headroom > 0 ? uint256(headroom) : 0, collateral);
    }

    /// @dev The state after `count` slots were freed and `collateral` came back.
    function _released(address provider, ProviderState state, uint256 count, uint128 collateral)
        private
        pure
        returns (ProviderState)
    {
        uint32 open = state.openJobs();
        if (count == 0 || count > open) revert SlotUnderflow(provider, open, uint32(count));
        return state.released(count, collateral);
    }

    /// @dev The state after the stake became `stake`, and headroom moved with it.
    ///
    /// Headroom is the stake less what open jobs hold: never more than the stake, and all of it while no job is open. A market that
    /// gives back more collateral than it took, or less, breaks that; what it did ends here, whenever the stake changes.
    function _moved(ProviderState state, int256 change, uint256 stake) private pure returns (ProviderState) {
        unchecked {
            // It fits: what is held was covered by the stake when it was taken, and no stake passes MAX_STAKE.
            int256 headroom = state.headroom() + change;
            if (headroom > int256(stake) || state.openJobs() == 0) headroom = int256(stake);
            return state.withHeadroom(int128(headroom));
        }
    }

    // ------------------------------------------------------------------------------------------------------------ others

    function _addStake(address owner_, uint256 amount) private {
        uint256 before = TOKEN.balanceOf(address(this));
        TOKEN.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = TOKEN.balanceOf(address(this)) - before;
        Provider storage provider = _providers[owner_];
        uint256 stake = provider.stake + received;
        if (received == 0 || stake > MAX_STAKE) revert InvalidAmount(amount);

        provider.stake = uint128(stake);
        provider.state = _moved(provider.state, int256(received), stake);
        emit Staked(owner_, received, stake);
    }

    /// @dev Collateral of open jobs. A headroom above the stake, which only a market that gives back what it never took can make, is none:
    /// nobody's view of a provider may depend on every market being honest.
    function _exposure(uint128 stake, int128 headroom) private pure returns (uint128) {
        unchecked {
            // As in _moved.
            int256 exposure = int256(uint256(stake)) - headroom;
            return exposure > 0 ? uint128(uint256(exposure)) : 0;
        }
    }

    /// @dev Of the caller's own provider.
    function _requireMinStake(Provider storage provider) private view {
        if (provider.stake < MIN_STAKE) revert InsufficientStake(msg.sender, provider.stake, MIN_STAKE);
    }

    function _checkedPayout(address payout) private view returns (address) {
        if (payout == address(0) || isDeadEnd(payout)) revert InvalidPayout(payout);
        return payout;
    }

    function _checkedEndpoint(string calldata endpoint) private pure returns (string calldata) {
        uint256 length = bytes(endpoint).length;
        if (length == 0 || length > MAX_ENDPOINT_BYTES) revert InvalidEndpoint(length, MAX_ENDPOINT_BYTES);
        return endpoint;
    }

    function _pageSize(uint256 total, uint256 offset, uint256 limit) private pure returns (uint256) {
        if (limit > MAX_PAGE) revert PageTooLarge(limit, MAX_PAGE);
        if (offset >= total) return 0;
        uint256 rest = total - offset;
        return rest < limit ? rest : limit;
    }
}
