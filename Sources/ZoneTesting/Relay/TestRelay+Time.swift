extension TestRelay {
    /// Moves the clock until nobody has anything left to do: no request is under way, nothing waits to be sent or
    /// fetched, every notice has arrived, and whoever has none to rely on has polled since the last change.
    ///
    /// No real time passes but what the work itself takes: a back-off of five minutes or a poll in half an hour are steps of
    /// the clock. Devices that are cut off are not waited for, nor are engines and mirrors that sync only when told to.
    ///
    /// - Parameter limit: How far to move the clock at the most; left out, a day.
    /// - Throws: `NotSettled`, which says what was still to be done.
    public func settle(within limit: Duration = .seconds(86_400)) async throws { try await world.settle(within: limit) }

    /// Moves the clock, and lets everything that comes due on the way happen when its time comes.
    ///
    /// - Parameter duration: How far.
    public func advance(by duration: Duration) async { await world.advance(by: duration) }
}
