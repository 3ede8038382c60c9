#if !canImport(Darwin)
    public import Foundation

    extension NotificationCenter {
        /// Returns a sequence of notifications, as Apple's Foundation does.
        ///
        /// Apps use it to wait for `.CKAccountChanged`.
        ///
        /// - Parameters:
        ///   - name: The name of the notifications.
        ///   - object: The object that posts the notifications; `nil` for any object.
        /// - Returns: A sequence that ends when its task is cancelled. Each iterator receives the notifications posted
        ///   after it was created.
        public func notifications(named name: Notification.Name, object: (any AnyObject & Sendable)? = nil)
            -> Notifications
        {
            Notifications(center: self, name: name, object: object)
        }

        /// A sequence of notifications.
        public struct Notifications: AsyncSequence, Sendable {
            /// The type of the elements.
            public typealias Element = Notification
            /// The sequence never fails.
            public typealias Failure = Never

            fileprivate let center: NotificationCenter
            fileprivate let name: Notification.Name
            fileprivate let object: (any AnyObject & Sendable)?

            /// Starts to observe.
            ///
            /// Notifications posted from now on are buffered for `next()`.
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

            /// An iterator over the notifications.
            public struct Iterator: AsyncIteratorProtocol {
                fileprivate var base: AsyncStream<Carried<Notification>>.Iterator

                /// Returns the next notification, in the order of posting; `nil` after the task is cancelled.
                public mutating func next() async -> Notification? { await base.next()?.value }

                /// Returns the next notification, on the caller's actor; `nil` after the task is cancelled.
                public mutating func next(isolation actor: isolated (any Actor)?) async -> Notification? {
                    await base.next(isolation: actor)?.value
                }
            }
        }
    }

    /// Carries a value from the thread that posts it to the task that waits for it.
    // Unchecked because Foundation's types are not marked as `Sendable`. One thread at a time uses the value: the
    // poster no longer uses the notification, and an observer is only passed back.
    private struct Carried<Value>: @unchecked Sendable {
        let value: Value
    }
#endif
