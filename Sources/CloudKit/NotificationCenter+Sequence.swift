#if !canImport(Darwin)
    public import Foundation

    extension NotificationCenter {
        /// Notifications of one name as they come, as Apple's Foundation has it: the way in which programs wait for
        /// `.CKAccountChanged`.
        ///
        /// - Parameters:
        ///   - name: The notifications' name.
        ///   - object: Whose notifications are meant; `nil` for everybody's.
        /// - Returns: A sequence that ends when its task is cancelled. It listens from the moment it is asked for an iterator.
        public func notifications(named name: Notification.Name, object: (any AnyObject & Sendable)? = nil)
            -> Notifications
        {
            Notifications(center: self, name: name, object: object)
        }

        /// Notifications of one name as they come.
        public struct Notifications: AsyncSequence, Sendable {
            /// What comes.
            public typealias Element = Notification
            /// Nothing goes wrong here.
            public typealias Failure = Never

            fileprivate let center: NotificationCenter
            fileprivate let name: Notification.Name
            fileprivate let object: (any AnyObject & Sendable)?

            /// Begins to listen: what is posted from now on is given by `next()`, however late it is asked for.
            public func makeAsyncIterator() -> Iterator {
                let stream = AsyncStream<Carried<Notification>> { continuation in
                    let observer = center.addObserver(forName: name, object: object, queue: nil) { notification in
                        continuation.yield(Carried(value: notification))
                    }
                    let carried = Carried(value: observer)
                    continuation.onTermination = { [center] _ in center.removeObserver(carried.value) }
                }
                return Iterator(base: stream.makeAsyncIterator())
            }

            /// One listener's place in the sequence.
            public struct Iterator: AsyncIteratorProtocol {
                fileprivate var base: AsyncStream<Carried<Notification>>.Iterator

                /// The next notification, in the order of posting; `nil` once the task is cancelled.
                public mutating func next() async -> Notification? { await base.next()?.value }

                /// The next notification, on the caller's actor; `nil` once the task is cancelled.
                public mutating func next(isolation actor: isolated (any Actor)?) async -> Notification? {
                    await base.next(isolation: actor)?.value
                }
            }
        }
    }

    /// A value on its way from where it was posted to the one task that waits for it.
    // Unchecked for Foundation's types, which it does not mark: one thread at a time has it, since who posted is done with the
    // notification, and an observer is only handed back.
    private struct Carried<Value>: @unchecked Sendable {
        let value: Value
    }
#endif
