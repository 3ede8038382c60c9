extension TestRelay {
    /// Moves the clock until no device has anything left to do.
    ///
    /// Then no request is in progress, nothing waits to be sent or fetched, every notice has arrived, and every device
    /// without notices has polled since the last change.
    ///
    /// Takes no real time but that of the work itself: a back-off of five minutes or a poll in half an hour is one step
    /// of the clock. Does not wait for disconnected devices, nor for engines and mirrors that sync only on request.
    ///
    /// - Parameter limit: how far to move the clock at most; a day by default.
    /// - Throws: `NotSettled`, which lists what was still to be done.
    public func settle(within limit: Duration = .seconds(86_400)) async throws { try await world.settle(within: limit) }

    /// Moves the clock, and lets everything that is due on the way happen at its time.
    ///
    /// - Parameter duration: how far to move the clock.
    public func advance(by duration: Duration) async { await world.advance(by: duration) }
}
