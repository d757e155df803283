declare i64 @llvm.smin.i64(i64, i64)
declare <8 x i8> @llvm.masked.load.v8i8.p0(ptr, i32, <8 x i1>, <8 x i8>)
declare void @llvm.masked.store.v8i8.p0(<8 x i8>, ptr, i32, <8 x i1>)
define void @jaxwarp_small_integers(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 16
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p3.at = getelementptr ptr, ptr %buffers, i64 3
  %p3 = load ptr, ptr %p3.at, align 8, !invariant.load !0
  %p4.at = getelementptr ptr, ptr %buffers, i64 4
  %p4 = load ptr, ptr %p4.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %p5.at = getelementptr ptr, ptr %buffers, i64 5
  %p5 = load ptr, ptr %p5.at, align 8, !invariant.load !0
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v27, %chunk ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr i8, ptr %p0, i64 %v3
  %v6 = load <16 x i8>, ptr %v5, align 1
  %v7 = mul <16 x i8> %v6, %v6
  %v8 = getelementptr i8, ptr %p1, i64 %v3
  %v9 = load <16 x i8>, ptr %v8, align 1
  %v10 = add <16 x i8> %v7, %v9
  %v11 = getelementptr i8, ptr %p3, i64 %v3
  store <16 x i8> %v10, ptr %v11, align 1
  %v12 = lshr <16 x i8> %v9, splat (i8 2)
  %v13 = xor <16 x i8> %v12, %v6
  %v14 = getelementptr i8, ptr %p4, i64 %v3
  store <16 x i8> %v13, ptr %v14, align 1
  %v15 = getelementptr i8, ptr %p2, i64 %v3
  %v16 = load <16 x i8>, ptr %v15, align 1
  %v17 = icmp ne <16 x i8> %v16, zeroinitializer
  %v18 = icmp sgt <16 x i8> %v6, splat (i8 0)
  %v19 = select <16 x i1> %v17, <16 x i1> %v18, <16 x i1> splat (i1 false)
  %v20 = xor <16 x i1> %v17, splat (i1 true)
  %v21 = icmp ult <16 x i8> %v9, splat (i8 9)
  %v22 = select <16 x i1> %v20, <16 x i1> %v21, <16 x i1> splat (i1 false)
  %v23 = select <16 x i1> %v19, <16 x i1> splat (i1 true), <16 x i1> %v22
  %v24 = getelementptr i8, ptr %p5, i64 %v3
  %v25 = zext <16 x i1> %v23 to <16 x i8>
  store <16 x i8> %v25, ptr %v24, align 1
  %v26 = add i64 %v3, 16
  %v27 = call i64 asm "", "=r,0"(i64 %v26)
  %v28 = icmp sle i64 %v27, %last_chunk
  br i1 %v28, label %chunk, label %rest, !llvm.loop !1
rest:
  %v29 = phi i64 [ %col_begin, %row ], [ %v27, %chunk ]
  %v30 = icmp slt i64 %v29, %col_end
  br i1 %v30, label %partial, label %past
partial:
  br label %part
part:
  %v31 = phi i64 [ %v29, %partial ], [ %v63, %part ]
  %v32 = sub i64 %col_end, %v31
  %v33 = call i64 @llvm.smin.i64(i64 %v32, i64 8)
  %v34 = trunc i64 %v33 to i32
  %v35 = insertelement <8 x i32> poison, i32 %v34, i32 0
  %v36 = shufflevector <8 x i32> %v35, <8 x i32> poison, <8 x i32> zeroinitializer
  %v37 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v36
  %v38 = trunc nuw nsw i64 %v31 to i32
  %v39 = getelementptr i8, ptr %p0, i64 %v31
  %v40 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr %v39, i32 1, <8 x i1> %v37, <8 x i8> zeroinitializer)
  %v41 = freeze <8 x i8> %v40
  %v42 = mul <8 x i8> %v41, %v41
  %v43 = getelementptr i8, ptr %p1, i64 %v31
  %v44 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr %v43, i32 1, <8 x i1> %v37, <8 x i8> zeroinitializer)
  %v45 = freeze <8 x i8> %v44
  %v46 = add <8 x i8> %v42, %v45
  %v47 = getelementptr i8, ptr %p3, i64 %v31
  call void @llvm.masked.store.v8i8.p0(<8 x i8> %v46, ptr %v47, i32 1, <8 x i1> %v37)
  %v48 = lshr <8 x i8> %v45, splat (i8 2)
  %v49 = xor <8 x i8> %v48, %v41
  %v50 = getelementptr i8, ptr %p4, i64 %v31
  call void @llvm.masked.store.v8i8.p0(<8 x i8> %v49, ptr %v50, i32 1, <8 x i1> %v37)
  %v51 = getelementptr i8, ptr %p2, i64 %v31
  %v52 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr %v51, i32 1, <8 x i1> %v37, <8 x i8> zeroinitializer)
  %v53 = freeze <8 x i8> %v52
  %v54 = icmp ne <8 x i8> %v53, zeroinitializer
  %v55 = icmp sgt <8 x i8> %v41, splat (i8 0)
  %v56 = select <8 x i1> %v54, <8 x i1> %v55, <8 x i1> splat (i1 false)
  %v57 = xor <8 x i1> %v54, splat (i1 true)
  %v58 = icmp ult <8 x i8> %v45, splat (i8 9)
  %v59 = select <8 x i1> %v57, <8 x i1> %v58, <8 x i1> splat (i1 false)
  %v60 = select <8 x i1> %v56, <8 x i1> splat (i1 true), <8 x i1> %v59
  %v61 = getelementptr i8, ptr %p5, i64 %v31
  %v62 = zext <8 x i1> %v60 to <8 x i8>
  call void @llvm.masked.store.v8i8.p0(<8 x i8> %v62, ptr %v61, i32 1, <8 x i1> %v37)
  %v63 = add i64 %v31, 8
  %v64 = icmp slt i64 %v63, %col_end
  br i1 %v64, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
