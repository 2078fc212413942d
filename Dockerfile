# syntax=docker/dockerfile:1
# The static binary, built in one image and copied alone into the next.
FROM rust:1.89-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked && cp target/dist/windward /windward

FROM scratch
COPY --from=build /windward /windward
WORKDIR /work
ENTRYPOINT ["/windward"]
