import Foundation
import GRDB
import Synchronization
import ZoneKit

/// The application's decisions when users sign in and out.
///
/// Each user's mirrored data are in files of their own, and so are the data written while no user is signed in. The
/// closures are called before anything is sent or fetched for the new user. They must not call the container, which
/// waits for them. See FromCoreData.md, "Users come and go".
public struct AccountPolicy: Sendable {
    /// What happens to a user's files when the user signs out.
    public enum SignOutChoice: Hashable, Sendable {
        /// They stay closed, with their unsent changes, until the user signs in again.
        case keepClosed
        /// They are deleted with their unsent changes.
        case delete
        /// Their objects are copied to the files used without a user, where they can be read and changed.
        ///
        /// The user's own files stay closed.
        case keepLocal
    }

    /// What happens to objects without a user when a user signs in.
    public enum SignInChoice: Hashable, Sendable {
        /// They stay in the files used without a user; `adoptLocalData` takes them over later.
        case leave
        /// They become the user's and are sent.
        case adopt
        /// Like `adopt`; then duplicates of the user's objects are removed, as by `deduplicate`.
        ///
        /// The value maps entities to the properties that duplicates have in common. Done after everything on the
        /// relay was fetched.
        case merge(by: [String: [String]])
    }

    /// A user who has signed out.
    public struct SignOut: Hashable, Sendable {
        /// The user's record name.
        public var user: String
        /// The number of objects with unsent changes, by store; stores without any are left out.
        public var unsent: [StoreID: Int]
    }

    /// A user who has signed in while there are objects without a user.
    public struct SignIn: Hashable, Sendable {
        /// The user's record name.
        public var user: String
        /// The number of objects without a user, by store.
        public var localObjects: [StoreID: Int]
    }

    /// Called when a user has signed out.
    public var signedOut: @Sendable (SignOut) async -> SignOutChoice
    /// Called when a user has signed in and there are objects without a user.
    public var signedIn: @Sendable (SignIn) async -> SignInChoice

    /// Creates a policy; by default files stay closed, and objects without a user stay until `adoptLocalData` is
    /// called.
    public init(
        signedOut: @escaping @Sendable (SignOut) async -> SignOutChoice = { _ in .keepClosed },
        signedIn: @escaping @Sendable (SignIn) async -> SignInChoice = { _ in .leave }
    ) {
        self.signedOut = signedOut
        self.signedIn = signedIn
    }
}

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
    static func opensWithoutUser(_ cloud: CloudOptions) -> Bool {
        guard let connection = try? cloud.container.session.connection() else { return false }
        return !connection.credentials.identifiesUser
    }

    // MARK: Account changes

    /// Handles a change of a store's user.
    ///
    /// While files are being replaced, the syncs of the old files are stopped. A report of theirs that waits here
    /// meanwhile is cancelled with them. A report for a file that is no longer open was already handled: its user may
    /// have signed in again.
    package func accountChanged(_ change: StoreAccount.Change, in file: StoreFile) async {
        guard await switchLock.enterUnlessCancelled() else { return }
        defer { switchLock.leave() }
        guard stores.file(file.id) === file else { return }
        // Of several containers' public stores, one may be open without a user while the user of another is signed in.
        if case .signedOut(of: nil) = change,
            descriptions.compactMap(\.cloud).contains(where: { !Self.opensWithoutUser($0) })
        {
            return
        }
        let before = stores.account
        let current: String? = if case .is(let user, _) = change { user } else { nil }
        let isSignedOut = if case .signedOut = change { true } else { false }
        stores.account = Account(
            user: isSignedOut ? nil : current ?? before.user,
            status: current == nil ? .signedOut : .signedIn
        )
        // Several stores report the same change, and report it again before each retry.
        if before != stores.account { postEvent(.account(previous: before.user, current: current)) }
        remember(current)
        // Files are replaced in a separate task, because that stops the sync that reports the change. A report of this
        // user by another store does not mean that this store's file was replaced.
        switch change {
        case .is(let user, let previous?) where previous != user:
            startSwitch(to: user) { await $0.switchFiles(to: user, from: previous) }
        case .signedOut(of: let user?):
            startSwitch(to: AccountFiles.noUser) { await $0.applySignOutChoice(of: user, isOpen: true) }
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

    private func postEvent(_ detail: MirrorEvent.Detail) {
        guard let store = descriptions.first(where: { $0.cloud != nil })?.id else { return }
        postEvent(detail, of: store)
    }

    private func postEvent(_ detail: MirrorEvent.Detail, of store: StoreID) {
        let now = conditions.wallClock()
        broadcaster.post(
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
        if previous == AccountFiles.noUser { adopts = await signInChoice(user) }
        await switchLock.enter()
        defer { switchLock.leave() }
        // A later sign-in is handled by its own call.
        let isStill = stores.account == Account(user: user, status: .signedIn)
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
        var signedOutUser: String?
        do {
            var accounts = AccountFiles.load(description.url)
            _ = accounts.assign(user, of: description.url)
            // The map must be stored first; otherwise the next start would open the previous user's file.
            try accounts.store(description.url)
            try self.open(description, for: user, &signedOutUser)
        } catch {
            // The previous file belongs to another user, so the store stays without a file.
            await stores.closeFile(description.id)
            return postEvent(.storeClosed(MirrorError(from: error).explanation), of: description.id)
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
    func applySignOutChoice(of user: String, isOpen: Bool) async {
        let choice = await accountPolicy.signedOut(.init(user: user, unsent: unsent(of: user)))
        await switchLock.enter()
        defer { switchLock.leave() }
        guard !state.withLock({ $0.isClosed }), isOpen == false || stores.account.status == .signedOut else { return }
        for description in ownDescriptions {
            let path = AccountFiles.load(description.url).path(for: user, of: description.url)
            if isOpen { await switchFile(of: description, to: AccountFiles.noUser, .leave) }
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
        if choice == .leave { postEvent(.localData(counts.values.reduce(0, +))) }
        return choice
    }

    /// The number of objects that do not belong to a user yet, by store; stores without any are left out.
    ///
    /// These are the objects written without a user, and those of a private store that was local until now, as long as
    /// no user has synced it: the first one who does owns and sends them.
    public var localObjects: [StoreID: Int] {
        var counts: [StoreID: Int] = [:]
        for description in ownDescriptions where description.cloud?.scope == .private {
            let path = AccountFiles.load(description.url).signedOutPath(of: description.url) ?? description.url.path
            let entities = model.tables(in: description.configuration).filter { $0.entity != nil }.map(\.name)
            let count = (try? Self.countUnownedObjects(entities, inFileAt: path)) ?? 0
            if count > 0 { counts[description.id] = count }
        }
        return counts
    }

    /// Returns how many objects without a user a file holds; 0 if they belong to a user.
    private static func countUnownedObjects(_ entities: [String], inFileAt path: String) throws -> Int {
        guard FileManager.default.fileExists(atPath: path) else { return 0 }
        var configuration = Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration).read { db in
            let owner = try db.tableExists("mirror_state") ? try State.text(db, .account) : nil
            guard owner == nil || owner == AccountFiles.noUser else { return 0 }
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
        await switchLock.enter()
        defer { switchLock.leave() }
        guard stores.account.status == .signedIn else {
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
            let path = AccountFiles.load(description.url).signedOutPath(of: description.url), path != file.path,
            let from = try closedFile(description, path)
        else { return 0 }
        var keys: [String: [String]]?
        if case .merge(let wanted) = choice { keys = wanted }
        let text = try keys.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) }
        return try StoreCopy(from: from, into: file, now: conditions.wallClock(), mergeKeys: text).run(emptying: true)
    }
}

/// Maps accounts to the files of a store: the first account uses the store's own file, the others use files in the
/// same folder.
///
/// Having no user counts as an account. The map is stored in a small file beside the store, so that the right file can
/// be opened without a request.
struct AccountFiles: Codable {
    /// File names by user record name.
    private var files: [String: String] = [:]
    /// The user whose file was open last.
    private var last: String?

    private static func place(_ url: URL) -> URL { url.appendingPathExtension("accounts") }

    static func load(_ url: URL) -> AccountFiles {
        guard let data = try? Data(contentsOf: place(url)),
            let known = try? JSONDecoder().decode(AccountFiles.self, from: data)
        else { return AccountFiles(ofStoreAt: url) }
        return known
    }

    init() {}

    /// Restores the map if its file is missing or damaged: the store's own file contains the name of its user.
    private init(ofStoreAt url: URL) {
        guard FileManager.default.fileExists(atPath: url.path) else { return }
        var configuration = Configuration()
        configuration.readonly = true
        let user = try? DatabaseQueue(path: url.path, configuration: configuration).read {
            try State.text($0, .account)
        }
        guard let user = user ?? nil else { return }
        files[user] = url.lastPathComponent
        last = user
    }

    func store(_ url: URL) throws { try JSONEncoder().encode(self).write(to: Self.place(url), options: .atomic) }

    /// The account used while no user is signed in.
    static let noUser = ""

    var lastUser: String? { last == Self.noUser ? nil : last }

    /// The path of the data written without a user; `nil` if there never were any.
    func signedOutPath(of url: URL) -> String? { files[Self.noUser] == nil ? nil : path(for: Self.noUser, of: url) }

    /// Forgets a user whose files were deleted.
    mutating func forget(_ user: String) {
        // The store's own file is not given to another user; only its name is free.
        if files[user] != nil { files[user] = nil }
        if last == user { last = Self.noUser }
    }

    /// Returns the path of a user's file; `nil` means the last user, or none yet.
    func path(for user: String?, of url: URL) -> String {
        guard let user = user ?? last, let name = files[user] else { return url.path }
        return url.deletingLastPathComponent().appendingPathComponent(name).path
    }

    /// Assigns a user to a file and returns its path; a new user gets a new file.
    mutating func assign(_ user: String, of url: URL) -> String {
        last = user
        if files[user] == nil {
            let isFirst = files.isEmpty
            let name = url.lastPathComponent
            files[user] =
                isFirst
                ? name
                : "\(url.deletingPathExtension().lastPathComponent)-\(user.isEmpty ? "nobody" : user).\(url.pathExtension)"
        }
        return path(for: user, of: url)
    }
}
