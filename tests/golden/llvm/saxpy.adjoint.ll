declare i64 @llvm.smin.i64(i64, i64)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
define void @jaxwarp_saxpy_vjp(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %v1 = alloca <16 x float>, align 16
  %v2 = alloca ptr, align 16
  %last_chunk = sub i64 %col_end, 16
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %a0 = load float, ptr %p0, align 4
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p5.at = getelementptr ptr, ptr %buffers, i64 5
  %p5 = load ptr, ptr %p5.at, align 8, !invariant.load !0
  %p4.at = getelementptr ptr, ptr %buffers, i64 4
  %p4 = load ptr, ptr %p4.at, align 8, !invariant.load !0
  %p3.at = getelementptr ptr, ptr %buffers, i64 3
  %p3 = load ptr, ptr %p3.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %whole.first = icmp eq i64 %col_begin, 0
  %whole.last = icmp eq i64 %col_end, %g0
  %whole = and i1 %whole.first, %whole.last
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %g3.at = getelementptr i64, ptr %geometry, i64 3
  %g3 = load i64, ptr %g3.at, align 8, !invariant.load !0
  %g4.at = getelementptr i64, ptr %geometry, i64 4
  %g4 = load i64, ptr %g4.at, align 8, !invariant.load !0
  %b0 = add i64 0, 4
  %b1.0 = mul i64 4, %g1
  %b1 = add i64 %b0, %b1.0
  %b2 = add i64 %b1, 4
  %b3.0 = mul i64 8, %g2
  %b3 = add i64 %b2, %b3.0
  %b4.0 = mul i64 8, %g3
  %b4 = add i64 %b3, %b4.0
  %b5.0 = mul i64 4, %g4
  %b5 = add i64 %b4, %b5.0
  %streams = icmp ugt i64 %b5, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v3 = icmp slt i64 %row_begin, %row_end
  %v4 = icmp sle i64 %col_begin, %last_chunk
  %v19 = insertelement <16 x float> poison, float %a0, i32 0
  %v20 = shufflevector <16 x float> %v19, <16 x float> poison, <16 x i32> zeroinitializer
  br i1 %v3, label %row, label %end
row:
  store <16 x float> splat (float 0x8000000000000000), ptr %v1
  store ptr null, ptr %v2
  br i1 %v4, label %full, label %rest
full:
  br label %chunk
chunk:
  %v5 = phi i64 [ %col_begin, %full ], [ %v32, %stored25 ]
  %v6 = trunc nuw nsw i64 %v5 to i32
  %v7 = getelementptr float, ptr %p1, i64 %v5
  %v8 = load <16 x float>, ptr %v7, align 4
  %v9 = getelementptr float, ptr %p5, i64 %v5
  %v10 = load <16 x float>, ptr %v9, align 4
  store <16 x float> splat (float 0x0000000000000000), ptr %v9, align 4
  %v11 = getelementptr float, ptr %p4, i64 %v5
  %v15 = ptrtoint ptr %v11 to i64
  %v16 = and i64 %v15, %lines
  %v17 = icmp eq i64 %v16, 0
  br i1 %v17, label %stream12, label %cache13
stream12:
  store <16 x float> %v10, ptr %v11, align 64, !nontemporal !4
  br label %stored14
cache13:
  store <16 x float> %v10, ptr %v11, align 4
  br label %stored14
stored14:
  %v18 = fmul <16 x float> %v8, %v10
  %v21 = fmul <16 x float> %v20, %v10
  %v22 = getelementptr float, ptr %p3, i64 %v5
  %v26 = ptrtoint ptr %v22 to i64
  %v27 = and i64 %v26, %lines
  %v28 = icmp eq i64 %v27, 0
  br i1 %v28, label %stream23, label %cache24
stream23:
  store <16 x float> %v21, ptr %v22, align 64, !nontemporal !4
  br label %stored25
cache24:
  store <16 x float> %v21, ptr %v22, align 4
  br label %stored25
stored25:
  %v29 = load <16 x float>, ptr %v1
  %v30 = fadd <16 x float> %v29, %v18
  store <16 x float> %v30, ptr %v1
  store ptr %p2, ptr %v2
  %v31 = add i64 %v5, 16
  %v32 = call i64 asm "", "=r,0"(i64 %v31)
  %v33 = icmp sle i64 %v32, %last_chunk
  br i1 %v33, label %chunk, label %rest, !llvm.loop !1
rest:
  %v34 = phi i64 [ %col_begin, %row ], [ %v32, %stored25 ]
  %v35 = icmp slt i64 %v34, %col_end
  br i1 %v35, label %partial, label %past
partial:
  %v36 = sub i64 %col_end, %v34
  %v37 = call i64 @llvm.smin.i64(i64 %v36, i64 16)
  %v38 = trunc i64 %v37 to i32
  %v39 = insertelement <16 x i32> poison, i32 %v38, i32 0
  %v40 = shufflevector <16 x i32> %v39, <16 x i32> poison, <16 x i32> zeroinitializer
  %v41 = icmp ult <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>, %v40
  %v42 = trunc nuw nsw i64 %v34 to i32
  %v43 = getelementptr float, ptr %p1, i64 %v34
  %v44 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v43, i32 4, <16 x i1> %v41, <16 x float> zeroinitializer)
  %v45 = freeze <16 x float> %v44
  %v46 = getelementptr float, ptr %p5, i64 %v34
  %v47 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v46, i32 4, <16 x i1> %v41, <16 x float> zeroinitializer)
  %v48 = freeze <16 x float> %v47
  call void @llvm.masked.store.v16f32.p0(<16 x float> splat (float 0x0000000000000000), ptr %v46, i32 4, <16 x i1> %v41)
  %v49 = getelementptr float, ptr %p4, i64 %v34
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v48, ptr %v49, i32 4, <16 x i1> %v41)
  %v50 = fmul <16 x float> %v45, %v48
  %v51 = fmul <16 x float> %v20, %v48
  %v52 = getelementptr float, ptr %p3, i64 %v34
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v51, ptr %v52, i32 4, <16 x i1> %v41)
  %v53 = select <16 x i1> %v41, <16 x float> %v50, <16 x float> splat (float 0x8000000000000000)
  %v54 = load <16 x float>, ptr %v1
  %v55 = fadd <16 x float> %v54, %v53
  store <16 x float> %v55, ptr %v1
  store ptr %p2, ptr %v2
  br label %past
past:
  %v56 = load ptr, ptr %v2
  %v59 = icmp eq ptr %v56, null
  br i1 %v59, label %gathered58, label %reached57
reached57:
  %v60 = load <16 x float>, ptr %v1
  %v61 = shufflevector <16 x float> %v60, <16 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v62 = shufflevector <16 x float> %v60, <16 x float> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v63 = fadd <8 x float> %v61, %v62
  %v64 = shufflevector <8 x float> %v63, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v65 = shufflevector <8 x float> %v63, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v66 = fadd <4 x float> %v64, %v65
  %v67 = shufflevector <4 x float> %v66, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v68 = shufflevector <4 x float> %v66, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v69 = fadd <2 x float> %v67, %v68
  %v70 = shufflevector <2 x float> %v69, <2 x float> poison, <1 x i32> <i32 0>
  %v71 = shufflevector <2 x float> %v69, <2 x float> poison, <1 x i32> <i32 1>
  %v72 = extractelement <1 x float> %v70, i32 0
  %v73 = extractelement <1 x float> %v71, i32 0
  %v74 = fadd float %v72, %v73
  br i1 %whole, label %alone75, label %shared76
alone75:
  %v77 = load float, ptr %v56, align 4
  %v78 = fadd float %v77, %v74
  store float %v78, ptr %v56, align 4
  br label %gathered58
shared76:
  %v79 = atomicrmw fadd ptr %v56, float %v74 monotonic, align 4
  br label %gathered58
gathered58:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
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
