import SyncCore

/// Checks the user before each fetch and send, and handles a change of the user.
extension SyncDriver {
    /// Checks which user is signed in, before each fetch and send and after a change of the credentials.
    func checkAccount() async throws {
        await accountCheck.enter()
        defer { accountCheck.leave() }
        let connection = try database.session.connection()
        let generation = connection.credentials.current.generation
        guard checkedAccount != generation else { return }
        let previous = state.read(\.user)
        guard connection.credentials.namesUser else {
            // This is known without a request, so the app is informed even without a network.
            refusedAccount = generation
            if previous != nil { await accountChanged(from: previous, to: nil) }
            throw CKError(.notAuthenticated, "No user is signed in.")
        }
        do {
            // Ask as the current sign-in, even if a round of the previous user has led to this call.
            let name = try await AccountBinding.$current.withValue(nil) { try await connection.fetchCallerName() }
            if name != previous { await accountChanged(from: previous, to: name) }
            // Set last, so that work still running for the previous user is not mistaken for the new user's.
            checkedAccount = generation
            await connection.notices.accountIsUsable(generation: generation)
        } catch {
            // An expired or rejected sign-in does not identify another user; the user's data stay pending.
            if CKError(from: error).code == .notAuthenticated { refusedAccount = generation }
            throw error
        }
    }

    /// Checks which user is signed in and continues for that user.
    ///
    /// If the check fails for a temporary reason, the next round repeats it. If no user is signed in or the relay
    /// rejects the credentials, the schedule waits for another sign-in.
    func followAccount() async {
        do {
            try await checkAccount()
            tell(.accountChanged(isUsable: true))
        } catch {
            tell(.accountChanged(isUsable: CKError(from: error).code != .notAuthenticated))
        }
    }

    /// Throws if the user has changed since a round began, so that an abandoned round does not report success.
    func requireNobodyElse(since epoch: Int) throws(CKError) {
        guard epoch == accountEpoch else {
            throw CKError(.accountTemporarilyUnavailable, "Another user has signed in since this operation began.")
        }
    }

    private func accountChanged(from previous: String?, to current: String?) async {
        state.update { contents in
            // Changes that were added before any sign-in belong to the first user who signs in; any other user starts
            // with an empty state.
            if previous != nil { contents = .init(stamp: contents.stamp, isShared: contents.isShared) }
            contents.user = current
        }
        if previous != nil {
            // A round in progress belongs to the previous user and must change nothing from now on.
            accountEpoch += 1
            round = nil
        }
        let before = previous.map { CKRecord.ID(recordName: $0) }
        let now = current.map { CKRecord.ID(recordName: $0) }
        switch (before, now) {
        case (nil, let now?): await deliver(.accountChange(.init(changeType: .signIn(currentUser: now))))
        case (let before?, nil): await deliver(.accountChange(.init(changeType: .signOut(previousUser: before))))
        case (let before?, let now?):
            await deliver(.accountChange(.init(changeType: .switchAccounts(previousUser: before, currentUser: now))))
        case (nil, nil): break
        }
        await saveState()
    }
}
