import HTTPTypes
import NIOCore
import RelayAPI

/// Writing of responses.
extension ConnectionGate {
    /// A response, and what happens to the connection after it.
    struct Answer {
        var response: APIResponse
        var persistence: ResponseBytes.Persistence
        /// Whether the request's method was HEAD.
        var omitsBody: Bool

        /// Passes the bytes that follow the head to `body`.
        func withSentBody<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
            guard !omitsBody, ResponseBytes.hasBody(response) else {
                return body(UnsafeRawBufferPointer(start: nil, count: 0))
            }
            return response.withBody(body)
        }
    }

    /// Writes a complete response on a connection that stays open.
    ///
    /// Head and body are passed to the system from their own memory in one call. The way through the channel copies
    /// both, and for a small response takes 50 % longer than the call itself.
    func send(_ answer: Answer, on context: ChannelHandlerContext) {
        if direct == nil, !isSecure { direct = DirectSend(context) }
        guard let direct else {
            context.writeAndFlush(wrapOutboundOut(bytes(of: answer, context)), promise: nil)
            return
        }
        loop.headBytes.clear()
        ResponseBytes.writeHead(
            answer.response,
            persistence: answer.persistence,
            date: loop.dateText,
            into: &loop.headBytes
        )
        let rest = loop.headBytes.withUnsafeReadableBytes { head in
            answer.withSentBody { body in unsent(head, body, after: direct.send(head, then: body)) }
        }
        guard let rest else { return }
        self.direct = nil
        context.writeAndFlush(wrapOutboundOut(rest), promise: nil)
    }

    /// Returns the bytes that the system has not accepted; `nil` if it accepted all.
    private func unsent(
        _ head: UnsafeRawBufferPointer,
        _ body: UnsafeRawBufferPointer,
        after taken: Int
    ) -> ByteBuffer? {
        let left = head.count + body.count - taken
        guard left > 0 else { return nil }
        var rest = ByteBuffer()
        rest.reserveCapacity(left)
        rest.writeBytes(head.dropFirst(taken))
        rest.writeBytes(body.dropFirst(max(0, taken - head.count)))
        return rest
    }

    /// Returns the complete response in one buffer.
    func bytes(of answer: Answer, _ context: ChannelHandlerContext) -> ByteBuffer {
        ResponseBytes.write(
            answer.response,
            persistence: answer.persistence,
            date: loop.dateText,
            omitsBody: answer.omitsBody,
            allocator: context.channel.allocator
        )
    }

    /// Returns the response to a rejected request, and reports the rejection.
    func bytes(of refusal: Refusal, omitsBody: Bool, _ context: ChannelHandlerContext) -> ByteBuffer {
        let id = loop.door.requestID()
        loop.door.onRefusal(refusal.noted(as: id))
        var headers: HTTPFields = [.contentType: "application/json; charset=UTF-8", .requestUUID: id]
        if let seconds = refusal.retryAfter { headers[.retryAfter] = String(seconds) }
        if refusal == .methodNotServed { headers[.allow] = "GET, POST, OPTIONS" }
        return ResponseBytes.write(
            APIResponse(
                status: .init(code: refusal.status),
                headers: headers,
                body: Array(refusal.body(requestID: id).utf8)
            ),
            persistence: .close,
            date: loop.dateText,
            omitsBody: omitsBody,
            allocator: context.channel.allocator
        )
    }
}
