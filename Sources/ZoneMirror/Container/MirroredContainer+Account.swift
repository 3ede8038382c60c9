import Foundation
import GRDB
import Synchronization
import ZoneKit

/// Sign-ins and sign-outs: each user has files of their own behind the same stores.
///
/// See Sync.md, "Accounts".
extension MirroredContainer {
    /// The application's decisions when users sign in and out; set it before `loadStores`.
    public var accountPolicy: AccountPolicy {
        get { state.withLock(\.accountPolicy) }
        set { state.withLock { $0.accountPolicy = newValue } }
    }

    /// Returns whether a store would be opened without a user: its container has no user and cannot sign in on its
    /// own.
    static func isOpenToNobody(_ cloud: CloudOptions) -> Bool {
        guard let connection = try? cloud.container.session.connection() else { return false }
        return !connection.credentials.namesUser
    }

    // MARK: Account changes

    /// Handles a change of a store's user.
    ///
    /// While files are being replaced, the syncs of the old files are stopped. A report of theirs that waits here
    /// meanwhile is cancelled with them. A report for a file that is no longer open was already handled: its user may
    /// have signed in again.
    func accountChanged(_ change: AccountGate.Change, in file: StoreFile) async {
        guard await switching.enterUnlessCancelled() else { return }
        defer { switching.leave() }
        guard stores.file(file.id) === file else { return }
        // Of several containers' public stores, one may be open without a user while the user of another is signed in.
        if case .signedOut(of: nil) = change,
            descriptions.compactMap(\.cloud).contains(where: { !Self.isOpenToNobody($0) })
        {
            return
        }
        let before = stores.account
        let current: String? = if case .is(let user, _) = change { user } else { nil }
        let isSignedOut = if case .signedOut = change { true } else { false }
        stores.account = Account(
            user: isSignedOut ? nil : current ?? before.user,
            standing: current == nil ? .signedOut : .signedIn
        )
        // Several stores report the same change, and report it again before each retry.
        if before != stores.account { tell(.account(previous: before.user, current: current)) }
        remember(current)
        // Files are replaced in a separate task, because that stops the sync that reports the change. A report of this
        // user by another store does not mean that this store's file was replaced.
        switch change {
        case .is(let user, let previous?) where previous != user:
            startSwitch(to: user) { await $0.switchFiles(to: user, from: previous) }
        case .signedOut(of: let user?):
            startSwitch(to: AccountFiles.nobody) { await $0.settleSignOut(of: user, isOpen: true) }
        case .is, .refused, .signedOut: break
        }
    }

    /// Starts the replacement once for all stores and reports of one change.
    private func startSwitch(to user: String, _ work: @escaping @Sendable (MirroredContainer) async -> Void) {
        let isNew = state.withLock { state in
            defer { state.switchingTo = user }
            return state.switchingTo != user
        }
        guard isNew else { return }
        conditions.time.start {
            await work(self)
            self.state.withLock { if $0.switchingTo == user { $0.switchingTo = nil } }
        }
    }

    private func tell(_ detail: MirrorEvent.Detail) {
        guard let store = descriptions.first(where: { $0.cloud != nil })?.id else { return }
        tell(detail, of: store)
    }

    private func tell(_ detail: MirrorEvent.Detail, of store: StoreID) {
        let now = conditions.wallClock()
        board.post(
            MirrorEvent(
                id: 0,
                store: store,
                kind: .account,
                began: now,
                ended: now,
                succeeded: true,
                errorCode: nil,
                message: nil,
                done: 0,
                total: nil,
                details: [detail]
            )
        )
    }

    private func remember(_ user: String?) {
        guard let user else { return }
        for description in ownDescriptions {
            let isThisFile =
                stores.file(description.id).map { file in
                    (try? file.pool.read { try State.text($0, .account) }) ?? nil
                } ?? nil
            guard isThisFile == nil || isThisFile == user else { continue }
            var accounts = AccountFiles.load(description.url)
            _ = accounts.assign(user, of: description.url)
            try? accounts.store(description.url)
        }
    }

    /// The stores that contain one user's data.
    private var ownDescriptions: [StoreDescription] {
        descriptions.filter { $0.cloud != nil && $0.cloud?.scope != .public }
    }

    /// Opens the files of another user, or those used without a user, in the private and shared stores.
    private func switchFiles(to user: String, from previous: String) async {
        var adopts: AccountPolicy.SignInChoice = .leave
        if previous == AccountFiles.nobody { adopts = await signInChoice(user) }
        await switching.enter()
        defer { switching.leave() }
        // A later sign-in is handled by its own call.
        let isStill = stores.account == Account(user: user, standing: .signedIn)
        guard isStill, !state.withLock({ $0.isClosed }) else { return }
        for description in ownDescriptions { await switchFile(of: description, to: user, adopts) }
    }

    private func switchFile(
        of description: StoreDescription,
        to user: String,
        _ adopts: AccountPolicy.SignInChoice
    ) async {
        let open = try? await stores.file(description.id)?.pool.read { try State.text($0, .account) }
        if open == user { return }
        let old = state.withLock { state in
            state.locks[description.id] = nil
            return state.syncs.removeValue(forKey: description.id)
        }
        await old?.stop()
        var gone: String?
        do {
            var accounts = AccountFiles.load(description.url)
            _ = accounts.assign(user, of: description.url)
            // The map must be stored first; otherwise the next start would open the previous user's file.
            try accounts.store(description.url)
            try self.open(description, for: user, &gone)
        } catch {
            // The previous file belongs to another user, so the store stays without a file.
            await stores.putAway(description.id)
            return tell(.storeClosed(MirrorError(from: error).explanation), of: description.id)
        }
        state.withLock { $0.views }?.fileReplaced(behind: description.id)
        if let file = stores.file(description.id) {
            if adopts != .leave { _ = try? adoptFile(of: description, into: file, adopts) }
            stores.committed(file.id, nil)
        }
        await sync(description.id)?.start()
    }

    // MARK: Signing out

    /// Applies the application's decision about a user's files; `isOpen` means that the stores still have them open.
    func settleSignOut(of user: String, isOpen: Bool) async {
        let choice = await accountPolicy.signedOut(.init(user: user, unsent: unsent(of: user)))
        await switching.enter()
        defer { switching.leave() }
        guard !state.withLock({ $0.isClosed }), isOpen == false || stores.account.standing == .signedOut else { return }
        for description in ownDescriptions {
            let path = AccountFiles.load(description.url).path(for: user, of: description.url)
            if isOpen { await switchFile(of: description, to: AccountFiles.nobody, .leave) }
            switch choice {
            case .keepClosed: break
            case .keepLocal: try? keepLocal(path, description)
            case .delete:
                var accounts = AccountFiles.load(description.url)
                accounts.forget(user)
                try? accounts.store(description.url)
                for ending in ["", "-wal", "-shm", "-sync"] {
                    try? FileManager.default.removeItem(atPath: path + ending)
                }
            }
        }
    }

    private func unsent(of user: String) -> [StoreID: Int] {
        var counts: [StoreID: Int] = [:]
        for description in ownDescriptions {
            let path = AccountFiles.load(description.url).path(for: user, of: description.url)
            guard let file = try? closedFile(description, path) else { continue }
            let count = (try? file.pool.read { try OutboxRow.count($0) }) ?? 0
            if count > 0 { counts[description.id] = count }
        }
        return counts
    }

    /// Opens a file that no store has open; `nil` if it does not exist.
    private func closedFile(_ description: StoreDescription, _ path: String) throws -> StoreFile? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        return try storeFile(description, path)
    }

    private func keepLocal(_ path: String, _ description: StoreDescription) throws {
        guard let from = try closedFile(description, path), let file = stores.file(description.id) else { return }
        try StoreCopy(from: from, into: file, now: conditions.wallClock()).run()
        stores.committed(file.id, nil)
    }

    // MARK: Signing in

    private func signInChoice(_ user: String) async -> AccountPolicy.SignInChoice {
        let counts = localObjects
        guard !counts.isEmpty else { return .leave }
        let choice = await accountPolicy.signedIn(.init(user: user, localObjects: counts))
        if choice == .leave { tell(.localData(counts.values.reduce(0, +))) }
        return choice
    }

    /// The number of objects that do not belong to a user yet, by store; stores without any are left out.
    ///
    /// These are the objects written without a user, and those of a private store that was local until now, as long as
    /// no user has synced it: the first one who does owns and sends them.
    public var localObjects: [StoreID: Int] {
        var counts: [StoreID: Int] = [:]
        for description in ownDescriptions where description.cloud?.scope == .private {
            let path = AccountFiles.load(description.url).nobodysPath(of: description.url) ?? description.url.path
            let entities = model.tables(in: description.configuration).filter { $0.entity != nil }.map(\.name)
            let count = (try? Self.ownerless(entities, inFileAt: path)) ?? 0
            if count > 0 { counts[description.id] = count }
        }
        return counts
    }

    /// Returns how many objects without a user a file holds; 0 if they belong to a user.
    private static func ownerless(_ entities: [String], inFileAt path: String) throws -> Int {
        guard FileManager.default.fileExists(atPath: path) else { return 0 }
        var configuration = Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration).read { db in
            let owner = try db.tableExists("mirror_state") ? try State.text(db, .account) : nil
            guard owner == nil || owner == AccountFiles.nobody else { return 0 }
            return try entities.reduce(0) { sum, name in
                guard try db.tableExists(name) else { return sum }
                return sum + (try Int.fetchOne(db, sql: "SELECT count(*) FROM \(name.quoted)") ?? 0)
            }
        }
    }

    /// Gives objects written without a user to the current user, so that they are sent.
    ///
    /// - Parameter choice: `adopt` or `merge`; `leave` does nothing.
    /// - Returns: The number of objects taken over.
    /// - Throws: `relay` if no user is signed in; SQLite's errors.
    @discardableResult
    public func adoptLocalData(_ choice: AccountPolicy.SignInChoice = .adopt) async throws(MirrorError) -> Int {
        await switching.enter()
        defer { switching.leave() }
        guard stores.account.standing == .signedIn else {
            throw MirrorError(.relay, "No user is signed in who could own the objects. Sign in first.")
        }
        guard choice != .leave else { return 0 }
        var count = 0
        do {
            for description in ownDescriptions where description.cloud?.scope == .private {
                guard let file = stores.file(description.id) else { continue }
                count += try adoptFile(of: description, into: file, choice)
                stores.committed(file.id, nil)
            }
        } catch {
            throw MirrorError(from: error)
        }
        return count
    }

    private func adoptFile(
        of description: StoreDescription,
        into file: StoreFile,
        _ choice: AccountPolicy.SignInChoice
    ) throws -> Int {
        guard description.cloud?.scope == .private,
            let path = AccountFiles.load(description.url).nobodysPath(of: description.url), path != file.path,
            let from = try closedFile(description, path)
        else { return 0 }
        var keys: [String: [String]]?
        if case .merge(let wanted) = choice { keys = wanted }
        let text = try keys.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) }
        return try StoreCopy(from: from, into: file, now: conditions.wallClock(), mergeKeys: text).run(emptying: true)
    }
}
