import SyncCore

/// Whose data they are: looked at before anything is sent or fetched, and followed when somebody else signs in.
extension SyncDriver {
    /// Finds out whose data these are before anything is sent or fetched, and again after the credentials have changed.
    func checkAccount() async throws {
        await accountCheck.enter()
        defer { accountCheck.leave() }
        let connection = try database.session.connection()
        let generation = connection.credentials.current.generation
        guard checkedAccount != generation else { return }
        let previous = state.read(\.user)
        guard connection.credentials.namesUser else {
            // Known without asking, and so told also where there is no network.
            refusedAccount = generation
            if previous != nil { await accountChanged(from: previous, to: nil) }
            throw CKError(.notAuthenticated, "Nobody is signed in.")
        }
        do {
            // Whoever speaks now, also where somebody else's round has brought this about.
            let name = try await AccountBinding.$current.withValue(nil) { try await connection.fetchCallerName() }
            if name != previous { await accountChanged(from: previous, to: name) }
            // Only now: what is still under way for the one before must not take itself for theirs.
            checkedAccount = generation
            await connection.notices.accountIsUsable(generation: generation)
        } catch {
            // A sign-in that has ended, or is not taken, says nothing of who they are: what is theirs waits for them.
            if CKError(from: error).code == .notAuthenticated { refusedAccount = generation }
            throw error
        }
    }

    /// Looks who speaks now, and goes on for them.
    ///
    /// Where it cannot be found out now, the next round looks again: that trouble has an end. Of nobody, and of whom the relay
    /// does not take, there is nothing to wait for but another sign-in.
    func followAccount() async {
        do {
            try await checkAccount()
            tell(.accountChanged(isUsable: true))
        } catch {
            tell(.accountChanged(isUsable: CKError(from: error).code != .notAuthenticated))
        }
    }

    /// Throws to whoever asked for a round that was given up for somebody else: it has no good end.
    func requireNobodyElse(since epoch: Int) throws(CKError) {
        guard epoch == accountEpoch else {
            throw CKError(.accountTemporarilyUnavailable, "Somebody else has signed in meanwhile.")
        }
    }

    private func accountChanged(from previous: String?, to current: String?) async {
        state.update { contents in
            // What is pending under nobody yet belongs to whoever signs in first; any other account starts anew.
            if previous != nil { contents = .init(stamp: contents.stamp, isShared: contents.isShared) }
            contents.user = current
        }
        if previous != nil {
            // A round that is under way is about the other's data: from here on it changes nothing.
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
